/* Makes the store fail at a chosen call: LD_PRELOAD, with STORE_FAULT=kill|tear|eio|enospc and STORE_FAULT_AT=k.
 *
 * Counted are the calls that change or sync the file data.mdb: pwrite, writev, pwritev, fdatasync and fsync.
 * At the k-th the process is killed before the call does anything (kill), or half of the call is done and it is killed
 * then (tear), or the call fails with EIO or ENOSPC, and so do all that follow.
 *
 * With STORE_LOG=path every such call is noted there when it is done: a letter (W write, D write that is synced by
 * itself, S sync), offset, length and the nanoseconds of the monotonic clock as eight bytes each in the machine's
 * order, then what was written.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const char FILE_NAME[] = "/data.mdb";
static long count;

static int is_store(int descriptor)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    ssize_t wanted = (ssize_t)sizeof FILE_NAME - 1;
    return length >= wanted && memcmp(path + length - wanted, FILE_NAME, (size_t)wanted) == 0;
}

/* 0: go on; -1: fail with errno; 1: do half of it and be killed. */
static int fault(int descriptor)
{
    const char *kind = getenv("STORE_FAULT"), *at = getenv("STORE_FAULT_AT");
    if (kind == NULL || at == NULL || !is_store(descriptor) || __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST) < atol(at))
        return 0;
    if (strcmp(kind, "tear") == 0)
        return 1;
    if (strcmp(kind, "kill") == 0)
        kill(getpid(), SIGKILL);
    errno = strcmp(kind, "enospc") == 0 ? ENOSPC : EIO;
    return -1;
}

static void note(int descriptor, char kind, const struct iovec *parts, int number, off_t offset, ssize_t done)
{
    const char *path = getenv("STORE_LOG");
    if (path == NULL || done < 0 || !is_store(descriptor))
        return;
    if (kind == 'W' && (fcntl(descriptor, F_GETFL) & O_DSYNC))
        kind = 'D';
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    unsigned long long head[3] = {(unsigned long long)offset, (unsigned long long)(kind == 'S' ? 0 : done),
                                  (unsigned long long)now.tv_sec * 1000000000ULL + (unsigned long long)now.tv_nsec};
    struct iovec all[130] = {{&kind, 1}, {head, sizeof head}};
    for (int index = 0; index < number; index++)
        all[index + 2] = parts[index];
    __typeof__(&writev) write_all = (__typeof__(&writev))dlsym(RTLD_NEXT, "writev");
    if (log < 0 || write_all(log, all, number + 2) < 0)
        abort();
    close(log);
}

#define NEXT(name) __typeof__(&name) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static ssize_t write_half(int descriptor, const struct iovec *parts, int number, off_t offset)
{
    NEXT(pwrite);
    for (int index = 0; index < (number + 1) / 2; index++) {
        next(descriptor, parts[index].iov_base, parts[index].iov_len / (number == 1 ? 2 : 1), offset);
        offset += (off_t)parts[index].iov_len;
    }
    kill(getpid(), SIGKILL);
    return -1;
}

ssize_t pwrite(int descriptor, const void *data, size_t length, off_t offset)
{
    NEXT(pwrite);
    int found = fault(descriptor);
    struct iovec part = {(void *)data, length};
    if (found != 0)
        return found < 0 ? -1 : write_half(descriptor, &part, 1, offset);
    ssize_t done = next(descriptor, data, length, offset);
    note(descriptor, 'W', &part, 1, offset, done);
    return done;
}

ssize_t pwrite64(int descriptor, const void *data, size_t length, off64_t offset)
{
    return pwrite(descriptor, data, length, (off_t)offset);
}

ssize_t pwritev(int descriptor, const struct iovec *parts, int number, off_t offset)
{
    NEXT(pwritev);
    int found = fault(descriptor);
    if (found != 0)
        return found < 0 ? -1 : write_half(descriptor, parts, number, offset);
    ssize_t done = next(descriptor, parts, number, offset);
    note(descriptor, 'W', parts, number, offset, done);
    return done;
}

ssize_t pwritev64(int descriptor, const struct iovec *parts, int number, off64_t offset)
{
    return pwritev(descriptor, parts, number, (off_t)offset);
}

ssize_t writev(int descriptor, const struct iovec *parts, int number)
{
    NEXT(writev);
    off_t offset = lseek(descriptor, 0, SEEK_CUR);
    int found = fault(descriptor);
    if (found != 0)
        return found < 0 ? -1 : write_half(descriptor, parts, number, offset);
    ssize_t done = next(descriptor, parts, number);
    note(descriptor, 'W', parts, number, offset, done);
    return done;
}

static int sync_with(int (*next)(int), int descriptor)
{
    int found = fault(descriptor);
    if (found > 0)
        kill(getpid(), SIGKILL);
    int done = found == 0 ? next(descriptor) : -1;
    note(descriptor, 'S', NULL, 0, 0, done);
    return done;
}

int fdatasync(int descriptor)
{
    NEXT(fdatasync);
    return sync_with(next, descriptor);
}

int fsync(int descriptor)
{
    NEXT(fsync);
    return sync_with(next, descriptor);
}
