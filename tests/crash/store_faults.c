/* Makes the store fail at a chosen call: LD_PRELOAD, with STORE_FAULT=kill|tear|eio|eio-once|enospc and STORE_FAULT_AT=k.
 *
 * Counted are the calls that change or sync the file data.mdb: pwrite, writev, pwritev, pwritev2, fdatasync, fsync. With
 * STORE_FILES=text they are those on every file and folder whose path contains the text, and so are posix_fallocate,
 * ftruncate, rename and unlink.
 * At the k-th the process is killed before the call does anything (kill), or half of the call is done and it is killed
 * then (tear), or the call fails with EIO or ENOSPC, and so do all that follow (eio-once: those succeed).
 *
 * With STORE_LOG=path every such call is noted there when it is done: a letter (W write, D write that is synced by
 * itself, S sync, G new size, R rename, U unlink), offset or size, length, the nanoseconds of the monotonic clock and
 * the length of the path as eight bytes each in the machine's order, the path, then what was written or the new path.
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

static int is_wanted(const char *path)
{
    const char *text = getenv("STORE_FILES");
    if (text != NULL)
        return strstr(path, text) != NULL;
    size_t length = strlen(path), wanted = sizeof FILE_NAME - 1;
    return length >= wanted && strcmp(path + length - wanted, FILE_NAME) == 0;
}

/* Writes the path of an open file; returns whether it is one of the store. */
static int is_store(int descriptor, char *path)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    return is_wanted(path);
}

/* 0: go on; -1: fail with errno; 1: do half of it and be killed. */
static int fault_at(const char *path)
{
    const char *kind = getenv("STORE_FAULT"), *at = getenv("STORE_FAULT_AT");
    if (kind == NULL || at == NULL || !is_wanted(path))
        return 0;
    long number = __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
    if (number < atol(at) || (number > atol(at) && strcmp(kind, "eio-once") == 0))
        return 0;
    if (strcmp(kind, "tear") == 0)
        return 1;
    if (strcmp(kind, "kill") == 0)
        kill(getpid(), SIGKILL);
    errno = strcmp(kind, "enospc") == 0 ? ENOSPC : EIO;
    return -1;
}

static int fault(int descriptor)
{
    char path[PATH_MAX];
    is_store(descriptor, path);
    return fault_at(path);
}

static void note_at(const char *path, char kind, const struct iovec *parts, int number, off_t offset, size_t length)
{
    const char *target = getenv("STORE_LOG");
    if (target == NULL || !is_wanted(path))
        return;
    int log = open(target, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    unsigned long long head[4] = {(unsigned long long)offset, (unsigned long long)length,
                                  (unsigned long long)now.tv_sec * 1000000000ULL + (unsigned long long)now.tv_nsec,
                                  (unsigned long long)strlen(path)};
    struct iovec all[130] = {{&kind, 1}, {head, sizeof head}, {(void *)path, strlen(path)}};
    for (int index = 0; index < number; index++)
        all[index + 3] = parts[index];
    __typeof__(&writev) write_all = (__typeof__(&writev))dlsym(RTLD_NEXT, "writev");
    if (log < 0 || number > 127 || write_all(log, all, number + 3) < 0)
        abort();
    close(log);
}

static void note(int descriptor, char kind, const struct iovec *parts, int number, off_t offset, ssize_t done)
{
    char path[PATH_MAX];
    if (done < 0 || getenv("STORE_LOG") == NULL || !is_store(descriptor, path))
        return;
    if (kind == 'W' && (fcntl(descriptor, F_GETFL) & O_DSYNC))
        kind = 'D';
    note_at(path, kind, parts, number, offset, kind == 'S' ? 0 : (size_t)done);
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

/* What os.pwritev calls. */
ssize_t pwritev2(int descriptor, const struct iovec *parts, int number, off_t offset, int flags)
{
    NEXT(pwritev2);
    int found = fault(descriptor);
    if (found != 0)
        return found < 0 ? -1 : write_half(descriptor, parts, number, offset);
    ssize_t done = next(descriptor, parts, number, offset, flags);
    note(descriptor, 'W', parts, number, offset, done);
    return done;
}

ssize_t pwritev64v2(int descriptor, const struct iovec *parts, int number, off64_t offset, int flags)
{
    return pwritev2(descriptor, parts, number, (off_t)offset, flags);
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

/* Calls that a store with files of its own makes; half of one is none. */

static int files_fault(int found)
{
    if (found > 0)
        kill(getpid(), SIGKILL);
    return found;
}

int posix_fallocate(int descriptor, off_t offset, off_t length)
{
    NEXT(posix_fallocate);
    if (getenv("STORE_FILES") == NULL)
        return next(descriptor, offset, length);
    if (files_fault(fault(descriptor)) != 0)
        return errno;
    int failed = next(descriptor, offset, length);
    if (failed == 0)
        note(descriptor, 'G', NULL, 0, offset + length, 0);
    return failed;
}

int posix_fallocate64(int descriptor, off64_t offset, off64_t length)
{
    return posix_fallocate(descriptor, (off_t)offset, (off_t)length);
}

int ftruncate(int descriptor, off_t length)
{
    NEXT(ftruncate);
    if (getenv("STORE_FILES") == NULL)
        return next(descriptor, length);
    if (files_fault(fault(descriptor)) != 0)
        return -1;
    int done = next(descriptor, length);
    note(descriptor, 'G', NULL, 0, length, done);
    return done;
}

int ftruncate64(int descriptor, off64_t length)
{
    return ftruncate(descriptor, (off_t)length);
}

int rename(const char *old, const char *new)
{
    NEXT(rename);
    if (getenv("STORE_FILES") == NULL)
        return next(old, new);
    if (files_fault(fault_at(old)) != 0)
        return -1;
    int done = next(old, new);
    struct iovec part = {(void *)new, strlen(new)};
    if (done == 0)
        note_at(old, 'R', &part, 1, 0, strlen(new));
    return done;
}

int unlink(const char *path)
{
    NEXT(unlink);
    if (getenv("STORE_FILES") == NULL)
        return next(path);
    if (files_fault(fault_at(path)) != 0)
        return -1;
    int done = next(path);
    if (done == 0)
        note_at(path, 'U', NULL, 0, 0, 0);
    return done;
}
