/* Writes what this process does to the files of one folder, TRACED_FOLDER, to the descriptor TRACED_FD: a text line for
   each call, and the bytes of a write behind its line. Loaded by LD_PRELOAD; compiled code and Python call it alike. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define FILES 1024
static char names[FILES][256];          /* by descriptor: the name in the folder, "." for the folder itself */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void put(const void* data, size_t length) {
    static ssize_t (*real)(int, const void*, size_t);
    static int out = -2;
    if (out == -2) out = getenv("TRACED_FD") ? atoi(getenv("TRACED_FD")) : -1;
    if (!real) real = dlsym(RTLD_NEXT, "write");
    while (out >= 0 && length > 0) {
        ssize_t done = real(out, data, length);
        if (done <= 0) abort();
        data = (const char*)data + done;
        length -= done;
    }
}

static const char* inside(const char* path) {
    const char* folder = getenv("TRACED_FOLDER");
    size_t length = folder ? strlen(folder) : 0;
    if (!length || !path || strncmp(path, folder, length)) return 0;
    if (path[length] == 0) return ".";
    return path[length] == '/' ? path + length + 1 : 0;
}

static const char* name_of(int fd) { return fd >= 0 && fd < FILES && names[fd][0] ? names[fd] : 0; }

/* A call that succeeded; the lock is held from before it, so that lines are in the order of the calls. */
static void note(const char* what, const char* name, long long one, long long other, const void* data, size_t length) {
    char line[512];
    put(line, snprintf(line, sizeof line, "%s %s %lld %lld %zu\n", what, name, one, other, length));
    put(data, length);
}

#define REAL(kind, name, ...) static kind (*real)(__VA_ARGS__); if (!real) real = dlsym(RTLD_NEXT, name)

static int opened(const char* called, const char* path, int flags, mode_t mode) {
    REAL(int, called, const char*, int, ...);
    const char* name = inside(path);
    int fd, is_new;
    pthread_mutex_lock(&lock);
    is_new = name && (flags & O_CREAT) && access(path, F_OK) != 0;
    fd = real(path, flags, mode);
    if (fd >= 0 && fd < FILES) {
        snprintf(names[fd], sizeof names[fd], "%s", name ? name : "");
        if (is_new) note("create", name, 0, 0, 0, 0);
        if (name && (flags & O_TRUNC)) note("truncate", name, 0, 0, 0, 0);
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

static mode_t mode_of(int flags, va_list rest) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; }
#define OPEN(called) int called(const char* path, int flags, ...) { \
    va_list rest; va_start(rest, flags); mode_t mode = mode_of(flags, rest); va_end(rest); \
    return opened(#called, path, flags, mode); }
OPEN(open)
OPEN(open64)

static ssize_t written(const char* called, int fd, const void* data, size_t length, off_t offset) {
    REAL(ssize_t, called, int, const void*, size_t, off_t);
    ssize_t done;
    const char* name = name_of(fd);
    if (!name) return real(fd, data, length, offset);
    pthread_mutex_lock(&lock);
    done = real(fd, data, length, offset);
    if (done > 0) note("write", name, offset, 0, data, done);
    pthread_mutex_unlock(&lock);
    return done;
}
ssize_t pwrite(int fd, const void* data, size_t length, off_t offset) { return written("pwrite", fd, data, length, offset); }
ssize_t pwrite64(int fd, const void* data, size_t length, off_t offset) { return written("pwrite64", fd, data, length, offset); }

#define AFTER(kind, called, name, call, what, one, data) \
    pthread_mutex_lock(&lock); kind result = call; int problem = errno; \
    if (result == 0 && (name)) note(what, name, one, 0, data, (data) ? strlen(data) : 0); \
    pthread_mutex_unlock(&lock); errno = problem; return result;

int ftruncate(int fd, off_t size) { REAL(int, "ftruncate", int, off_t); AFTER(int, ftruncate, name_of(fd), real(fd, size), "truncate", size, (char*)0) }
int ftruncate64(int fd, off_t size) { REAL(int, "ftruncate64", int, off_t); AFTER(int, ftruncate64, name_of(fd), real(fd, size), "truncate", size, (char*)0) }
int fsync(int fd) { REAL(int, "fsync", int); AFTER(int, fsync, name_of(fd), real(fd), "sync", 0, (char*)0) }
int fdatasync(int fd) { REAL(int, "fdatasync", int); AFTER(int, fdatasync, name_of(fd), real(fd), "sync", 0, (char*)0) }
int unlink(const char* path) { REAL(int, "unlink", const char*); AFTER(int, unlink, inside(path), real(path), "remove", 0, (char*)0) }
int rename(const char* from, const char* to) { REAL(int, "rename", const char*, const char*); AFTER(int, rename, inside(from), real(from, to), "rename", 0, inside(to)) }
int link(const char* from, const char* to) { REAL(int, "link", const char*, const char*); AFTER(int, link, inside(from), real(from, to), "link", 0, inside(to)) }

int close(int fd) {
    REAL(int, "close", int);
    pthread_mutex_lock(&lock);
    if (fd >= 0 && fd < FILES) names[fd][0] = 0;
    pthread_mutex_unlock(&lock);
    return real(fd);
}
