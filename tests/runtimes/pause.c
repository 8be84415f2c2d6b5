/* The pod's pause process: holds the sandbox's namespaces, reaps orphans where it is pid 1, ends on SIGTERM. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int sig) { (void)sig; _exit(0); }
static void reap(int sig) { (void)sig; while (waitpid(-1, 0, WNOHANG) > 0); }

int main(void) {
    signal(SIGTERM, end);
    signal(SIGINT, end);
    signal(SIGCHLD, reap);
    for (;;) pause();
}
