// Moves the wall clock of a process by the seconds that a file says: LD_PRELOAD. The file has one int64 and is mapped, so that
// all processes move at once and asking for the time costs nothing more. The monotonic clock is left alone. libfaketime 0.9.10
// does not know `cnd_timedwait`, with which librdkafka waits.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t nothing = 0;
static const volatile int64_t *offset = &nothing;

// A time on the monotonic clock is below ten years, and a wall clock's is above.
enum { TEN_YEARS = 315360000 };

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("UNSLIDE_MONTH_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) offset = mapped;
    close(file);
}

#if defined(__x86_64__)
#define CONDITIONS "GLIBC_2.3.2"
#else
#define CONDITIONS "GLIBC_2.17"
#endif

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime);
    int status = real(clock, now);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *offset;
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    REAL(gettimeofday);
    int status = real(now, zone);
    if (status == 0 && now) now->tv_sec += *offset;
    return status;
}

time_t time(time_t *into) {
    REAL(time);
    time_t now = real(NULL) + *offset;
    if (into) *into = now;
    return now;
}

int timespec_get(struct timespec *now, int base) {
    REAL(timespec_get);
    int status = real(now, base);
    if (status == TIME_UTC) now->tv_sec += *offset;
    return status;
}

static struct timespec to_real(const struct timespec *end) {
    struct timespec moved = *end;
    if (moved.tv_sec > TEN_YEARS) moved.tv_sec -= *offset;
    return moved;
}

int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex, const struct timespec *restrict end) {
    REAL(cnd_timedwait);
    struct timespec moved = to_real(end);
    return real(condition, mutex, &moved);
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict end) {
    // dlsym may return the form of before 2003, for other conditions.
    static __typeof__(&pthread_cond_timedwait) real;
    if (!real) real = (__typeof__(&pthread_cond_timedwait))dlvsym(RTLD_NEXT, "pthread_cond_timedwait", CONDITIONS);
    struct timespec moved = to_real(end);
    return real(condition, mutex, &moved);
}

// A file is as old as the clock says: `unslide fsck` leaves young files alone. Object storage renames each file that it has written.
int rename(const char *from, const char *to) {
    REAL(rename);
    int status = real(from, to);
    struct timespec times[2];
    if (status == 0 && *offset && clock_gettime(CLOCK_REALTIME, &times[0]) == 0) {
        times[1] = times[0];
        utimensat(AT_FDCWD, to, times, AT_SYMLINK_NOFOLLOW);
    }
    return status;
}
