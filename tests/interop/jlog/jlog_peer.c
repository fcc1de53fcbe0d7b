/* Does what it is told with JLog's C library: one command a line on standard input, one answer a line.
 *
 *   init BYTES [lz4|null]          make the journal
 *   writer [BUFFER_BYTES]          open a writer; BUFFER_BYTES: its pre-commit buffer (JLog 2.6)
 *   put SEC USEC HEX               write a message
 *   fill BYTES                     write a message of that many 'x'
 *   many WRITER FIRST COUNT BYTES  write messages FIRST .. FIRST+COUNT-1 of WRITER: see make_payload
 *   threads N WRITER FIRST COUNT BYTES   the same from N threads, each with a writer of its own: WRITER, WRITER+1, ...
 *   flush                          write the buffer out (JLog 2.6)
 *   size BYTES                     alter the segment limit through the open writer
 *   reader NAME                    open a reader
 *   interval                       what is there to read: COUNT FIRST LAST
 *   read                           all messages of one interval: a line each, ADDRESS SEC.USEC HEX
 *   follow COUNT IDLE_MS [keep]    read and checkpoint until COUNT messages were read or nothing came for IDLE_MS;
 *                                  keep: no checkpoint but the library's own
 *   done LOG:MARKER                set the checkpoint
 *   add NAME begin|end, remove NAME, where NAME, list, clean
 *   lock FILE, unlock              hold a file's lock as the library does
 *   close                          close reader and writer
 *
 * Names are hex. Answers: "ok ..." or "error NAME ...".
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
#include <fcntl.h>

#include "jlog.h"
#include "jlog_io.h"

#if __has_include("jlog_compress.h")
#define IS_2_6 1
#define OPEN_FILE(path) jlog_file_open(path, 0, 0640, 1)
#else
#define IS_2_6 0
#define OPEN_FILE(path) jlog_file_open(path, 0, 0640)
#endif

static const char *journal;
static jlog_ctx *writer, *reader;
static jlog_file *held;

static void answer(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

static void answer_error(jlog_ctx *ctx, long done) { answer("error %s %ld", jlog_ctx_err_string(ctx), done); }

static unsigned char *from_hex(const char *text, size_t *length) {
    unsigned char *bytes = malloc(strlen(text) / 2 + 1);
    unsigned value;
    *length = 0;
    while (sscanf(text + 2 * *length, "%2x", &value) == 1)
        bytes[(*length)++] = value;
    bytes[*length] = 0;
    return bytes;
}

static void print_hex(const unsigned char *bytes, size_t length) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < length; i++) {
        putchar(digits[bytes[i] >> 4]);
        putchar(digits[bytes[i] & 15]);
    }
}

/* "WRITER:NUMBER:" and number * 7919 % (most + 1) bytes; those of every fifth message are empty messages. */
static size_t make_payload(char *to, long writer_number, long number, long most) {
    static const unsigned char empty[16] = {0x18, 0x73, 0x3a, 0x66};
    size_t at = sprintf(to, "%ld:%ld:", writer_number, number);
    size_t filler = (unsigned long)number * 7919 % (most + 1);
    for (size_t j = 0; j < filler; j++)
        to[at + j] = number % 5 ? (char)(number + j) : (char)empty[j & 15];
    return at + filler;
}

static long write_many(jlog_ctx *ctx, long writer_number, long first, long count, long most) {
    char *payload = malloc(most + 64);
    long done = 0;
    while (done < count) {
        size_t length = make_payload(payload, writer_number, first + done, most);
        if (jlog_ctx_write(ctx, payload, length) != 0)
            break;
        done++;
    }
    free(payload);
    return done;
}

struct task {
    pthread_t thread;
    long writer_number, first, count, most, done;
};

static void *run_task(void *argument) {
    struct task *task = argument;
    jlog_ctx *ctx = jlog_new(journal);
    if (jlog_ctx_open_writer(ctx) == 0)
        task->done = write_many(ctx, task->writer_number, task->first, task->count, task->most);
    jlog_ctx_close(ctx);
    return NULL;
}

static void threads(long n, struct task common) {
    struct task *tasks = calloc(n, sizeof(*tasks));
    long done = 0;
    for (long i = 0; i < n; i++) {
        tasks[i] = common;
        tasks[i].writer_number += i;
        pthread_create(&tasks[i].thread, NULL, run_task, &tasks[i]);
    }
    for (long i = 0; i < n; i++) {
        pthread_join(tasks[i].thread, NULL);
        done += tasks[i].done;
    }
    free(tasks);
    answer("ok %ld", done);
}

static void init(size_t bytes, const char *compression) {
    jlog_ctx *ctx = jlog_new(journal);
    jlog_ctx_alter_journal_size(ctx, bytes);
#if IS_2_6
    if (*compression) {
        jlog_ctx_set_use_compression(ctx, 1);
        jlog_ctx_set_compression_provider(
            ctx, strcmp(compression, "lz4") ? JLOG_COMPRESSION_NULL : JLOG_COMPRESSION_LZ4);
    }
#endif
    if (jlog_ctx_init(ctx) != 0)
        answer_error(ctx, 0);
    else
        answer("ok");
    jlog_ctx_close(ctx);
}

static void open_writer(long buffer_bytes) {
    writer = jlog_new(journal);
#if IS_2_6
    if (buffer_bytes)
        jlog_ctx_set_pre_commit_buffer_size(writer, buffer_bytes);
#endif
    if (jlog_ctx_open_writer(writer) != 0)
        answer_error(writer, 0);
    else
        answer("ok");
}

static void put(const void *bytes, size_t length, struct timeval *when) {
    jlog_message message = {.mess = (void *)bytes, .mess_len = length};
    if (jlog_ctx_write_message(writer, &message, when) != 0)
        answer_error(writer, 0);
    else
        answer("ok");
}

/* Prints the interval's messages; the number, or -1. */
static long print_interval(jlog_id *last) {
    jlog_id at;
    long count = jlog_ctx_read_interval(reader, &at, last), done;
    for (done = 0; done < count; done++, JLOG_ID_ADVANCE(&at)) {
        jlog_message message;
        if (jlog_ctx_read_message(reader, &at, &message) != 0)
            return -1;
        printf("%08x:%08x %u.%06u ", at.log, at.marker, message.header->tv_sec, message.header->tv_usec);
        print_hex(message.mess, message.mess_len);
        putchar('\n');
    }
    return count;
}

static void follow(long wanted, long idle_ms, int keep) {
    long seen = 0, waited = 0;
    jlog_id last;
    while (seen < wanted && waited < idle_ms) {
        long count = print_interval(&last);
        if (count < 0) {
            answer_error(reader, seen);
            return;
        }
        fflush(stdout); /* what is done has been handed over */
        if (count > 0 && !keep && jlog_ctx_read_checkpoint(reader, &last) != 0) {
            answer_error(reader, seen);
            return;
        }
        seen += count;
        waited = count ? 0 : waited + 5;
        if (!count)
            usleep(5000);
    }
    answer("ok %ld", seen);
}

static void list(jlog_ctx *ctx) {
    char **names;
    int count = jlog_ctx_list_subscribers(ctx, &names);
    printf("ok");
    for (int i = 0; i < count; i++) {
        putchar(' ');
        print_hex((unsigned char *)names[i], strlen(names[i]));
    }
    answer("");
    if (count >= 0)
        jlog_ctx_list_subscribers_dispose(ctx, names);
}

/* Commands that are about a subscriber's name. */
static void subscriber(const char *command, const char *hex, const char *where) {
    size_t length;
    char *name = (char *)from_hex(hex, &length);
    jlog_id id;
    if (!strcmp(command, "reader")) {
        reader = jlog_new(journal);
        if (jlog_ctx_open_reader(reader, name) != 0)
            answer_error(reader, 0);
        else
            answer("ok");
        free(name);
        return;
    }
    jlog_ctx *ctx = jlog_new(journal);
    if (!strcmp(command, "add")) {
        if (jlog_ctx_add_subscriber(ctx, name, strcmp(where, "end") ? JLOG_BEGIN : JLOG_END) != 0)
            answer_error(ctx, 0);
        else
            answer("ok");
    } else if (!strcmp(command, "remove")) {
        answer("ok %d", jlog_ctx_remove_subscriber(ctx, name));
    } else if (jlog_get_checkpoint(ctx, name, &id) != 0) {
        answer("error none 0");
    } else {
        answer("ok %08x:%08x", id.log, id.marker);
    }
    jlog_ctx_close(ctx);
    free(name);
}

static void lock(const char *name) {
    char *path;
    if (asprintf(&path, "%s/%s", journal, name) < 0)
        abort();
    held = OPEN_FILE(path);
    answer(held && jlog_file_lock(held) ? "ok" : "error lock 0");
    free(path);
}

static void unlock(void) {
    jlog_file_unlock(held);
    jlog_file_close(held);
    held = NULL;
    answer("ok");
}

static void close_both(void) {
    if (writer)
        jlog_ctx_close(writer);
    if (reader)
        jlog_ctx_close(reader);
    writer = reader = NULL;
    answer("ok");
}

static void obey(char *line) {
    char command[16] = "", word[16] = "", *text = malloc(strlen(line) + 1);
    struct task task = {0};
    struct timeval when;
    jlog_id first, last;
    long n = 0, m = 0, sec, usec;
    *text = 0;
    sscanf(line, "%15s", command);
    if (sscanf(line, "init %ld %15s", &n, word) >= 1) {
        init(n, word);
    } else if (!strcmp(command, "writer")) {
        sscanf(line, "writer %ld", &n);
        open_writer(n);
    } else if (sscanf(line, "put %ld %ld %s", &sec, &usec, text) >= 2) {
        size_t length;
        unsigned char *bytes = from_hex(text, &length);
        when = (struct timeval){.tv_sec = sec, .tv_usec = usec};
        put(bytes, length, &when);
        free(bytes);
    } else if (sscanf(line, "fill %ld", &n) == 1) {
        char *bytes = malloc(n + 1);
        memset(bytes, 'x', n);
        put(bytes, n, NULL);
        free(bytes);
    } else if (sscanf(line, "many %ld %ld %ld %ld", &task.writer_number, &task.first, &task.count, &task.most) == 4) {
        long done = write_many(writer, task.writer_number, task.first, task.count, task.most);
        if (done < task.count)
            answer_error(writer, done);
        else
            answer("ok %ld", done);
    } else if (sscanf(line, "threads %ld %ld %ld %ld %ld", &n, &task.writer_number, &task.first, &task.count,
                      &task.most) == 5) {
        threads(n, task);
    } else if (sscanf(line, "size %ld", &n) == 1) {
        answer(jlog_ctx_alter_journal_size(writer, n) == 0 ? "ok" : "error size 0");
    } else if (!strcmp(command, "interval")) {
        n = jlog_ctx_read_interval(reader, &first, &last);
        if (n < 0)
            answer_error(reader, 0);
        else
            answer("ok %ld %08x:%08x %08x:%08x", n, first.log, first.marker, last.log, last.marker);
    } else if (!strcmp(command, "read")) {
        n = print_interval(&last);
        if (n < 0)
            answer_error(reader, 0);
        else
            answer("ok %ld", n);
    } else if (sscanf(line, "follow %ld %ld %15s", &n, &m, word) >= 2) {
        follow(n, m, *word != 0);
    } else if (sscanf(line, "done %x:%x", &last.log, &last.marker) == 2) {
        if (jlog_ctx_read_checkpoint(reader, &last) != 0)
            answer_error(reader, 0);
        else
            answer("ok");
    } else if (sscanf(line, "%*[a-z] %s %15s", text, word) >= 1 && strstr("reader add remove where", command)) {
        subscriber(command, text, word);
    } else if (!strcmp(command, "list")) {
        jlog_ctx *ctx = jlog_new(journal);
        list(ctx);
        jlog_ctx_close(ctx);
    } else if (!strcmp(command, "clean")) {
        answer("ok %d", jlog_clean(journal));
    } else if (sscanf(line, "lock %s", text) == 1) {
        lock(text);
    } else if (!strcmp(command, "unlock")) {
        unlock();
    } else if (!strcmp(command, "close")) {
        close_both();
#if IS_2_6
    } else if (!strcmp(command, "flush")) {
        answer(jlog_ctx_flush_pre_commit_buffer(writer) == 0 ? "ok" : "error flush 0");
#endif
    } else {
        answer("error command 0");
    }
    free(text);
}

int main(int count, char **arguments) {
    char *line = NULL;
    size_t room = 0;
    if (count != 2) {
        fprintf(stderr, "jlog_peer JOURNAL\n");
        return 2;
    }
    journal = arguments[1];
    while (getline(&line, &room, stdin) > 0)
        obey(line);
    free(line);
    return 0;
}
