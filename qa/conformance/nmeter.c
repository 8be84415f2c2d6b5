// `nmeter -d0 '%3t'`, which the tests ask for the time of day with milliseconds: busybox's applet, which Debian leaves out.
#include <stdio.h>
#include <string.h>
#include <time.h>

int main(int argc, char **argv)
{
	struct timespec now;
	struct tm day;
	if (argc != 3 || strcmp(argv[1], "-d0") || strcmp(argv[2], "%3t"))
		return 1;
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &day);
	printf("%02d:%02d:%02d.%03ld\n", day.tm_hour, day.tm_min, day.tm_sec, now.tv_nsec / 1000000);
	return 0;
}
