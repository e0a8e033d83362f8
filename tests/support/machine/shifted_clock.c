/* Shifts the wall clock of one process: loaded before libc, told the shift by a mapped file.

   Monotonic clocks stay as they are. Waits until a moment of the wall clock end when that clock
   shows it, also if it jumps meanwhile, as the kernel's do: they are cut into short slices. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define SLICE (SECOND / 20)
#define LONG_AGO 1000000000 /* as an uptime thirty years: such a moment is of the wall clock */

static const volatile long long *shift;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SHIFTED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) abort();
    shift = mapped;
    close(file);
}

static long long true_now(void) {
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

static long long shown_now(void) { return true_now() + (shift ? *shift : 0); }

static struct timespec spec(long long at) {
    return (struct timespec){.tv_sec = at / SECOND, .tv_nsec = at % SECOND};
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, out);
    *out = spec(shown_now());
    return 0;
}

int timespec_get(struct timespec *out, int base) {
    if (base != TIME_UTC) return 0;
    *out = spec(shown_now());
    return base;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    (void)zone;
    long long now = shown_now();
    out->tv_sec = now / SECOND;
    out->tv_usec = now % SECOND / 1000;
    return 0;
}

time_t time(time_t *out) {
    time_t now = shown_now() / SECOND;
    if (out) *out = now;
    return now;
}

/* The next slice of a wait until *until*, as a moment of the true clock; 0: it is over. */
static int next_slice(const struct timespec *until, struct timespec *slice) {
    long long left = until->tv_sec * SECOND + until->tv_nsec - shown_now();
    *slice = spec(true_now() + (left < 0 ? 0 : left < SLICE ? left : SLICE));
    return left > 0;
}

#define SLICED(call, timed_out)                            \
    for (;;) {                                             \
        struct timespec slice;                             \
        int goes_on = next_slice(until, &slice);           \
        int result = (call);                               \
        if (!(timed_out) || !goes_on) return result;       \
    }

typedef int cond_wait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
typedef int cond_clockwait(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
typedef int c11_wait(cnd_t *, mtx_t *, const struct timespec *);
typedef int sem_wait_until(sem_t *, const struct timespec *);

static void *real(const char *name, const char *version) {
    void *found = dlvsym(RTLD_NEXT, name, version);
    return found ? found : dlsym(RTLD_NEXT, name);
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    cond_wait *wait = real("pthread_cond_timedwait", "GLIBC_2.3.2");
    if (until->tv_sec < LONG_AGO) return wait(cond, mutex, until);
    SLICED(wait(cond, mutex, &slice), result == ETIMEDOUT)
}

int pthread_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           clockid_t clock, const struct timespec *restrict until) {
    cond_clockwait *wait = real("pthread_cond_clockwait", "GLIBC_2.34");
    if (clock != CLOCK_REALTIME) return wait(cond, mutex, clock, until);
    SLICED(wait(cond, mutex, clock, &slice), result == ETIMEDOUT)
}

int cnd_timedwait(cnd_t *restrict cond, mtx_t *restrict mutex,
                  const struct timespec *restrict until) {
    c11_wait *wait = real("cnd_timedwait", "GLIBC_2.34");
    SLICED(wait(cond, mutex, &slice), result == thrd_timedout)
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    sem_wait_until *wait = real("sem_timedwait", "GLIBC_2.34");
    SLICED(wait(semaphore, &slice), result != 0 && errno == ETIMEDOUT)
}
