/* Preloaded into a program, makes one kind of system call fail from a certain call on:
   FAIL_CALL names the call (write or fsync), FAIL_AFTER says how many succeed, FAIL_ERRNO how it
   fails. Only files below FAIL_BELOW are concerned. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

long calls;

static int fails(const char *call, int descriptor) {
    const char *wanted = getenv("FAIL_CALL"), *below = getenv("FAIL_BELOW");
    char link[64], path[PATH_MAX];
    ssize_t length;
    if (!wanted || !below || strcmp(wanted, call) != 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (strncmp(path, below, strlen(below)) != 0) return 0;
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) <= atol(getenv("FAIL_AFTER"))) return 0;
    errno = atoi(getenv("FAIL_ERRNO"));
    return 1;
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    return fails("write", descriptor) ? -1 : real(descriptor, bytes, count);
}

int fsync(int descriptor) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fsync");
    return fails("fsync", descriptor) ? -1 : real(descriptor);
}
