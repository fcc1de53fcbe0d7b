// Writes a recording.log with Aeron's own RecordingLog, and prints what that says of it when it reads it again.
import io.aeron.cluster.RecordingLog;
import java.io.File;

public final class WriteRecordingLog
{
    static String endpoint(final int length)
    {
        return "archive-" + "x".repeat(length - 20) + ".example:191";
    }

    public static void main(final String[] args)
    {
        final File folder = new File(args[0]);
        try (RecordingLog log = new RecordingLog(folder, true))
        {
            log.appendTerm(7, 0, 0, 1_000);
            log.appendSnapshot(8, 0, 0, 4096, 1_010, 0);
            log.appendSnapshot(9, 0, 0, 4096, 1_011, -1);
            log.appendStandbySnapshot(20, 0, 0, 8192, 1_020, 0, "standby-a:9010");
            log.appendStandbySnapshot(21, 0, 0, 8192, 1_021, -1, "standby-a:9010");
            log.appendTerm(7, 1, 16384, 1_100);
            // Up to 128 bytes, and one byte more; many; as many as there may be.
            for (final int length : new int[]{ 20, 76, 77, 500, 4044 })
            {
                log.appendStandbySnapshot(30, 1, 16384, 16384 + 32L * length, 1_200, 0, endpoint(length));
                log.appendStandbySnapshot(31, 1, 16384, 16384 + 32L * length, 1_201, -1, endpoint(length));
            }
            // Up to 64 bytes, and one byte more.
            log.appendStandbySnapshot(40, 1, 16384, 32768, 1_300, 0, "b:1234567890");
            log.appendStandbySnapshot(41, 1, 16384, 32768, 1_301, -1, "b:12345678901");
            log.invalidateLatestSnapshot();
            log.appendSnapshot(50, 1, 16384, 20480, 1_400, 0);
            log.appendSnapshot(51, 1, 16384, 20480, 1_401, -1);
            log.force(2);
        }
        try (RecordingLog log = new RecordingLog(folder, false))
        {
            System.out.println(log);
        }
    }
}
