/* Times the C library of JLog 2.0 for benchmarks/jlog_peer.py, which builds it. Prints "MESSAGES SECONDS".
 *
 *   jlog_peer create PATH SEGMENT_BYTES SUBSCRIBER...
 *   jlog_peer append PATH PAYLOAD_BYTES MESSAGES PROCESSES   each process appends MESSAGES, one by one
 *   jlog_peer index PATH SUBSCRIBER                          makes the index, as the first reader does
 *   jlog_peer read PATH SUBSCRIBER EVERY                     one interval, message by message; a checkpoint after
 *                                                            every EVERY messages, none with 0
 *
 * Opening, the first look at the index and closing are outside the time: what is left is what a message costs.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "jlog.h"

static void fail(const char *what, jlog_ctx *journal) {
    fprintf(stderr, "jlog_peer: %s: %s\n", what, journal ? jlog_ctx_err_string(journal) : "failed");
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int create(const char *path, size_t segment_bytes, char **subscribers, int count) {
    jlog_ctx *journal = jlog_new(path);
    jlog_ctx_alter_journal_size(journal, segment_bytes);
    if (jlog_ctx_init(journal) != 0)
        fail("create", journal);
    jlog_ctx_close(journal);
    journal = jlog_new(path);
    for (int i = 0; i < count; i++)
        if (jlog_ctx_add_subscriber(journal, subscribers[i], JLOG_BEGIN) != 0)
            fail("add subscriber", journal);
    jlog_ctx_close(journal);
    return 0;
}

/* One appending process: says on `ready` that it is open, waits for the end of `go`, says on `ready` that it has done. */
static void append_messages(const char *path, size_t payload_bytes, long messages, int ready, int go) {
    char *payload = malloc(payload_bytes + 1), byte = 0;
    memset(payload, 'x', payload_bytes + 1);
    jlog_ctx *journal = jlog_new(path);
    if (jlog_ctx_open_writer(journal) != 0)
        fail("open writer", journal);
    if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 0)
        fail("pipe", NULL);
    for (long i = 0; i < messages; i++)
        if (jlog_ctx_write(journal, payload, payload_bytes) != 0)
            fail("write", journal);
    if (write(ready, &byte, 1) != 1)
        fail("pipe", NULL);
    jlog_ctx_close(journal);
    exit(0);
}

static void wait_for(int ready, int processes) {
    char byte;
    for (int i = 0; i < processes; i++)
        if (read(ready, &byte, 1) != 1)
            fail("a process ended early", NULL);
}

static int append(const char *path, size_t payload_bytes, long messages, int processes) {
    int ready[2], go[2];
    if (pipe(ready) != 0 || pipe(go) != 0)
        fail("pipe", NULL);
    for (int i = 0; i < processes; i++)
        if (fork() == 0) {
            close(ready[0]);
            close(go[1]);
            append_messages(path, payload_bytes, messages, ready[1], go[0]);
        }
    close(ready[1]);
    close(go[0]);
    wait_for(ready[0], processes);
    double begin = now();
    close(go[1]);
    wait_for(ready[0], processes);
    double took = now() - begin;
    while (wait(NULL) > 0)
        ;
    printf("%ld %.9f\n", messages * processes, took);
    return 0;
}

static int read_messages(const char *path, const char *subscriber, long every, int is_timed) {
    jlog_ctx *journal = jlog_new(path);
    jlog_id first, last;
    jlog_message message;
    if (jlog_ctx_open_reader(journal, subscriber) != 0)
        fail("open reader", journal);
    long count = jlog_ctx_read_interval(journal, &first, &last);
    if (count < 0)
        fail("interval", journal);
    size_t bytes = 0;
    double begin = now();
    for (long i = 1; is_timed && i <= count; i++, JLOG_ID_ADVANCE(&first)) {
        if (jlog_ctx_read_message(journal, &first, &message) != 0)
            fail("read", journal);
        bytes += message.mess_len;
        if (every && i % every == 0 && jlog_ctx_read_checkpoint(journal, &first) != 0)
            fail("checkpoint", journal);
    }
    double took = now() - begin;
    if (is_timed && bytes == 0)
        fail("no messages", NULL);
    printf("%ld %.9f\n", count, took);
    jlog_ctx_close(journal);
    return 0;
}

int main(int argc, char **argv) {
    if (argc >= 4 && strcmp(argv[1], "create") == 0)
        return create(argv[2], strtoul(argv[3], NULL, 10), argv + 4, argc - 4);
    if (argc == 6 && strcmp(argv[1], "append") == 0)
        return append(argv[2], strtoul(argv[3], NULL, 10), atol(argv[4]), atoi(argv[5]));
    if (argc == 4 && strcmp(argv[1], "index") == 0)
        return read_messages(argv[2], argv[3], 0, 0);
    if (argc == 5 && strcmp(argv[1], "read") == 0)
        return read_messages(argv[2], argv[3], atol(argv[4]), 1);
    fprintf(stderr, "jlog_peer: see the comment in its source\n");
    return 2;
}
