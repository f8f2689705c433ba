/*
 * Functions of the C library that libraries take from the program instead, since it exports them (build.rs): random bytes come from the kernel
 * each time. From glibc 2.41 on getrandom() hands out bytes that it keeps in memory of the process (vgetrandom in the vDSO), so two requests that
 * begin in one image would get the same.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

/* GETENTROPY_MAX */
#define ENTROPY_MOST 256u

ssize_t getrandom(void *bytes, size_t length, unsigned flags)
{
	return syscall(SYS_getrandom, bytes, length, flags);
}

int getentropy(void *bytes, size_t length)
{
	char *at = bytes;
	if (length > ENTROPY_MOST) {
		errno = EIO;
		return -1;
	}
	while (length > 0) {
		ssize_t got = getrandom(at, length, 0);
		if (got < 0 && errno != EINTR) {
			return -1;
		}
		at += got > 0 ? got : 0;
		length -= got > 0 ? (size_t)got : 0;
	}
	return 0;
}

/* Since glibc 2.36; they have no way to fail. */
void arc4random_buf(void *bytes, size_t length)
{
	char *at = bytes;
	while (length > 0) {
		size_t some = length < ENTROPY_MOST ? length : ENTROPY_MOST;
		if (getentropy(at, some) != 0) {
			abort();
		}
		at += some;
		length -= some;
	}
}

uint32_t arc4random(void)
{
	uint32_t value;
	arc4random_buf(&value, sizeof value);
	return value;
}

/* Below `bound`, each number as likely as the others: the lowest 2^32 mod `bound` values are not used. */
uint32_t arc4random_uniform(uint32_t bound)
{
	uint32_t value, unused = bound < 2 ? 0 : -bound % bound;
	do {
		value = arc4random();
	} while (value < unused);
	return bound < 2 ? 0 : value % bound;
}
