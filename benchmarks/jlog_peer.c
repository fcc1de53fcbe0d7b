/* Times JLog's C library for benchmarks/jlog_peer.py, which builds it. Prints "MESSAGES SECONDS".
 *
 *   jlog_peer create PATH SEGMENT_BYTES SUBSCRIBER...
 *   jlog_peer append PATH PAYLOAD_BYTES MESSAGES PROCESSES   each process appends MESSAGES, one by one
 *   jlog_peer index PATH SUBSCRIBER                          makes the index, as the first reader does
 *   jlog_peer read PATH SUBSCRIBER EVERY                     one interval, message by message; a checkpoint after
 *                                                            every EVERY messages, none with 0
 *   jlog_peer walk SEGMENT                                   without the library: from header to header of a mapped
 *                                                            segment without compression, touching each page
 *
 * With JLog 2.6 (EVERLOG_HAS_BULK):
 *
 *   jlog_peer buffered PATH PAYLOAD_BYTES MESSAGES BUFFER_BYTES   through the buffer, and a flush
 *   jlog_peer bulk PATH SUBSCRIBER                           one interval, 1,024 messages at a time
 *
 * Opening, the first look at the index and closing are outside the time: what is left is what a message costs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

/* A subscriber's journal, with the first of the messages that it may read now and their number. */
static jlog_ctx *open_interval(const char *path, const char *subscriber, jlog_id *first, long *count) {
    jlog_ctx *journal = jlog_new(path);
    jlog_id last;
    if (jlog_ctx_open_reader(journal, subscriber) != 0)
        fail("open reader", journal);
    *count = jlog_ctx_read_interval(journal, first, &last);
    if (*count < 0)
        fail("interval", journal);
    return journal;
}

static int read_messages(const char *path, const char *subscriber, long every, int is_timed) {
    jlog_id first;
    long count;
    jlog_ctx *journal = open_interval(path, subscriber, &first, &count);
    jlog_message message;
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

static int walk(const char *segment) {
    struct stat status;
    int fd = open(segment, O_RDONLY);
    if (fd < 0 || fstat(fd, &status) != 0)
        fail("open segment", NULL);
    const size_t page = 4096, header = 16;
    size_t size = (size_t)status.st_size;
    long count = 0;
    uint64_t sum = 0;
    double begin = now();
    const uint8_t *data = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED)
        fail("map segment", NULL);
    for (size_t at = 0; at + header <= size; count++) {
        uint32_t length;
        memcpy(&length, data + at + 12, 4);
        size_t end = at + header + length;
        if (end > size)
            fail("walk", NULL);
        for (size_t touched = (at | (page - 1)) + 1; touched < end; touched += page)
            sum += *(const volatile uint8_t *)(data + touched);
        at = end;
    }
    double took = now() - begin;
    munmap((void *)data, size);
    close(fd);
    fprintf(stderr, "%llu", (unsigned long long)sum);
    printf("%ld %.9f\n", count, took);
    return 0;
}

#ifdef EVERLOG_HAS_BULK
static int append_buffered(const char *path, size_t payload_bytes, long messages, size_t buffer_bytes) {
    char *payload = malloc(payload_bytes + 1);
    memset(payload, 'x', payload_bytes + 1);
    jlog_ctx *journal = jlog_new(path);
    if (jlog_ctx_set_pre_commit_buffer_size(journal, buffer_bytes) != 0 || jlog_ctx_open_writer(journal) != 0)
        fail("open writer", journal);
    double begin = now();
    for (long i = 0; i < messages; i++)
        if (jlog_ctx_write(journal, payload, payload_bytes) != 0)
            fail("write", journal);
    if (jlog_ctx_flush_pre_commit_buffer(journal) != 0)
        fail("flush", journal);
    double took = now() - begin;
    jlog_ctx_close(journal);
    printf("%ld %.9f\n", messages, took);
    return 0;
}

static int read_in_bulk(const char *path, const char *subscriber) {
    enum { AT_ONCE = 1024 };
    static jlog_message found[AT_ONCE];
    jlog_id first;
    long count;
    jlog_ctx *journal = open_interval(path, subscriber, &first, &count);
    size_t bytes = 0;
    double begin = now();
    for (long done = 0; done < count;) {
        int part = count - done < AT_ONCE ? (int)(count - done) : AT_ONCE;
        if (jlog_ctx_bulk_read_messages(journal, &first, part, found) != 0)
            fail("bulk read", journal);
        for (int i = 0; i < part; i++)
            bytes += found[i].mess_len;
        first.marker += (uint32_t)part;
        done += part;
    }
    double took = now() - begin;
    if (bytes == 0)
        fail("no messages", NULL);
    printf("%ld %.9f\n", count, took);
    jlog_ctx_close(journal);
    return 0;
}
#endif

int main(int argc, char **argv) {
    if (argc >= 4 && strcmp(argv[1], "create") == 0)
        return create(argv[2], strtoul(argv[3], NULL, 10), argv + 4, argc - 4);
    if (argc == 6 && strcmp(argv[1], "append") == 0)
        return append(argv[2], strtoul(argv[3], NULL, 10), atol(argv[4]), atoi(argv[5]));
    if (argc == 4 && strcmp(argv[1], "index") == 0)
        return read_messages(argv[2], argv[3], 0, 0);
    if (argc == 5 && strcmp(argv[1], "read") == 0)
        return read_messages(argv[2], argv[3], atol(argv[4]), 1);
    if (argc == 3 && strcmp(argv[1], "walk") == 0)
        return walk(argv[2]);
#ifdef EVERLOG_HAS_BULK
    if (argc == 6 && strcmp(argv[1], "buffered") == 0)
        return append_buffered(argv[2], strtoul(argv[3], NULL, 10), atol(argv[4]), strtoul(argv[5], NULL, 10));
    if (argc == 4 && strcmp(argv[1], "bulk") == 0)
        return read_in_bulk(argv[2], argv[3]);
#endif
    fprintf(stderr, "jlog_peer: see the comment in its source\n");
    return 2;
}
