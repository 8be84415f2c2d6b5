// What runs in a container under chaos. It notes its start, SIGTERM and end in /out/<pod>.log: each a line, on disk before it goes on.
//
//     witness run POD CONTAINER [for=MS] [code=N] [fails=N] [deaf=1]
//     witness prestop POD CONTAINER [for=MS]
//
// It runs for MS milliseconds (without end by default) and exits with `code`; its instances before the Nth (`fails`) exit with 3.
// At SIGTERM it exits with 0, unless it is deaf. A line says:
//
//     WHAT  boot-time-ns  pod-uid  container  container-id  sandbox-id  pid  restart  free|held or exit code
//
// "held": another live process has this container's lock. The kernel lets go of a lock when its holder dies, and no sooner.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static char id[80] = "-", sandbox[80] = "-", said[4096];
static int restarts = -1, notes;
static const char *container, *uid;

static void note(const char *what, const char *more) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    long long at = now.tv_sec * 1000000000LL + now.tv_nsec;
    int length = snprintf(said, sizeof said, "%s %lld %s %s %s %s %d %d %s\n", what, at, uid, container, id, sandbox,
                          (int)getpid(), restarts, more);
    if (write(notes, said, length) != length || fsync(notes) != 0) _exit(99);
}

// The container's id is the last part of its cgroup; the sandbox's is in the path that /etc/hostname is mounted from; and
// the instance's number is the name of its termination log.
static void look_around(void) {
    static char line[8192];
    FILE *file = fopen("/proc/self/cgroup", "r");
    while (file && fgets(line, sizeof line, file)) {
        char *last = strrchr(line, '/');
        if (last && strlen(last + 1) == 65) snprintf(id, sizeof id, "%.64s", last + 1);
    }
    if (file) fclose(file);
    file = fopen("/proc/self/mountinfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        char root[4096], where[4096];
        if (sscanf(line, "%*s %*s %*s %4095s %4095s", root, where) != 2) continue;
        char *below = strstr(root, "/sandboxes/");
        if (!strcmp(where, "/etc/hostname") && below) snprintf(sandbox, sizeof sandbox, "%.64s", below + 11);
        if (!strcmp(where, "/dev/termination-log")) restarts = strtol(strrchr(root, '/') + 1, NULL, 16);
    }
    if (file) fclose(file);
}

static int option(int count, char **given, const char *name, int fallback) {
    size_t length = strlen(name);
    for (int i = 4; i < count; i++)
        if (!strncmp(given[i], name, length) && given[i][length] == '=') return atoi(given[i] + length + 1);
    return fallback;
}

int main(int count, char **given) {
    if (count < 4) return 98;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL); // what is blocked is kept, also for process 1
    char path[512];
    container = given[3];
    uid = getenv("POD_UID") ? getenv("POD_UID") : "-";
    snprintf(path, sizeof path, "/out/%s.log", given[2]);
    notes = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (notes < 0) return 97;
    look_around();
    int lasts = option(count, given, "for", 0), deaf = option(count, given, "deaf", 0);
    if (!strcmp(given[1], "prestop")) {
        note("PRESTOP", "-");
        usleep(1000 * lasts);
        return 0;
    }
    snprintf(path, sizeof path, "/out/%s.%s.lock", given[2], container);
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (lock < 0) return 96;
    note("START", flock(lock, LOCK_EX | LOCK_NB) == 0 ? "free" : "held");
    int code = restarts < option(count, given, "fails", 0) ? 3 : option(count, given, "code", 0);
    struct timespec now, ends;
    clock_gettime(CLOCK_BOOTTIME, &ends);
    long long left = lasts * 1000000LL, end = ends.tv_sec * 1000000000LL + ends.tv_nsec + left;
    while (!lasts || left > 0) {
        struct timespec most = {left / 1000000000, left % 1000000000};
        if (sigtimedwait(&signals, NULL, lasts ? &most : NULL) == SIGTERM) {
            note("TERM", "-");
            if (!deaf) {
                code = 0;
                break;
            }
        }
        clock_gettime(CLOCK_BOOTTIME, &now);
        left = end - (now.tv_sec * 1000000000LL + now.tv_nsec);
    }
    snprintf(path, sizeof path, "%d", code);
    note("END", path);
    _exit(code);
}
