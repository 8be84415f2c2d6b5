/* What critest's image of a setuid program runs: says who it is. */
#include <stdio.h>
#include <unistd.h>

int main(void) {
    printf("Effective uid: %u\n", (unsigned)geteuid());
    return 0;
}
