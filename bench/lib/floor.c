/* What the kernel alone costs a server: reads what has come, and answers it by one write of bytes that are always the same. It
 * understands no request, so a client may only send one at a time. The measuring stick of bench/cache: no server that reads a
 * request and writes its answer by one call each can do with less.
 *
 *     floor PORT FILE    answers on 127.0.0.1:PORT with all of FILE: head and content */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LONGEST = 1 << 20, EVENTS = 1024 };

static char answer[LONGEST], request[65536];
static size_t length;

static void end(const char *what)
{
	perror(what);
	exit(1);
}

static void watch(int poll, int socket, unsigned events)
{
	struct epoll_event event = { .events = events, .data.fd = socket };

	if (epoll_ctl(poll, EPOLL_CTL_ADD, socket, &event))
		end("epoll_ctl");
}

static int listening(int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int yes = 1, socket_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (bind(socket_, (struct sockaddr *)&address, sizeof address) || listen(socket_, 512))
		end("listen");
	return socket_;
}

static void serve(int socket)
{
	ssize_t got = recv(socket, request, sizeof request, 0);

	if (got < 0 && errno == EAGAIN)
		return;
	/* A client that doesn't take it all at once can't be helped: there is no other state than this. */
	if (got <= 0 || send(socket, answer, length, MSG_NOSIGNAL) != (ssize_t)length)
		close(socket);
}

int main(int count, char **words)
{
	struct epoll_event events[EVENTS];
	FILE *file = count == 3 ? fopen(words[2], "rb") : NULL;
	int poll = epoll_create1(0), listener, client, yes = 1, room = LONGEST;

	if (!file)
		end("floor PORT FILE");
	length = fread(answer, 1, sizeof answer, file);
	listener = listening(atoi(words[1]));
	watch(poll, listener, EPOLLIN);
	for (;;) {
		int ready = epoll_wait(poll, events, EVENTS, -1);

		for (int i = 0; i < ready; i++) {
			if (events[i].data.fd != listener) {
				serve(events[i].data.fd);
				continue;
			}
			while ((client = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
				setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
				/* Room for all of it at once. */
				setsockopt(client, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
				watch(poll, client, EPOLLIN | EPOLLRDHUP | EPOLLET);
			}
		}
	}
}
