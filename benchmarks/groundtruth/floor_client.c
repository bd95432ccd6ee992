/* floor_client: the least that any client can do, as a floor to hold others against.
 *
 *   floor_client --port N --streams C --requests R --body FILE [--path /v1/chat/completions] [--out FILE]
 *
 * A closed loop over keep-alive connections that are opened first. Each read costs one recv() and
 * one clock reading; events are found by their blank line, no JSON is looked at. Prints one JSON
 * object with its CPU time; --out gets one JSON object a request: id, start_ns, at_ns of every
 * event (role, finish and usage events included).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_EVENTS = 65536 + 8 };

struct stream {
    int fd, events, number;
    bool newline;             /* the read before ended in the first of two newlines */
    char tail[7];
    uint64_t start, *at;
};

static char *body;
static size_t body_size;
static const char *path = "/v1/chat/completions";
static FILE *out;
static long started, finished, requests = 64;
static uint64_t events, reads;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void load_body(const char *name) {
    FILE *from = fopen(name, "r");
    if (!from) die(name);
    body = malloc(1 << 20);
    body_size = fread(body, 1, 1 << 20, from);
    fclose(from);
}

static void launch(struct stream *s) {
    char head[512];
    s->number = (int)started++;
    s->events = 0;
    s->newline = false;
    memset(s->tail, 0, sizeof s->tail);
    int n = snprintf(head, sizeof head,
                     "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                     "X-Request-Id: floor-%d\r\nContent-Length: %zu\r\n\r\n",
                     path, s->number, body_size);
    char *request = malloc((size_t)n + body_size);
    memcpy(request, head, (size_t)n);
    memcpy(request + n, body, body_size);
    s->start = now_ns();
    if (send(s->fd, request, (size_t)n + body_size, MSG_NOSIGNAL) != n + (ssize_t)body_size) die("send");
    free(request);
}

static void conclude(struct stream *s) {
    finished++;
    if (!out) return;
    fprintf(out, "{\"id\":\"floor-%d\",\"start_ns\":%lu,\"at_ns\":[", s->number, s->start);
    for (int i = 0; i < s->events; i++) fprintf(out, i ? ",%lu" : "%lu", s->at[i]);
    fputs("]}\n", out);
}

static void note(struct stream *s, uint64_t when) {
    if (s->events < MAX_EVENTS) s->at[s->events++] = when;
    events++;
}

/* An event ends in two newlines; JSON holds none, and chunk framing has a CR before each. */
static void scan(struct stream *s, const char *data, size_t size, uint64_t when) {
    const char *end = data + size, *at = data;
    if (s->newline && *at == '\n') note(s, when);
    while ((at = memchr(at, '\n', (size_t)(end - at)))) {
        if (++at == end) break;
        if (*at == '\n') note(s, when), at++;
        if (at == end) break;
    }
    s->newline = end[-1] == '\n' && !(size > 1 && (end[-2] == '\n' || end[-2] == '\r'));
}

static bool ended(struct stream *s, const char *data, size_t size) {
    size_t whole = sizeof s->tail;
    if (size >= whole) memcpy(s->tail, data + size - whole, whole);
    else {
        memmove(s->tail, s->tail + size, whole - size);
        memcpy(s->tail + whole - size, data, size);
    }
    return !memcmp(s->tail, "\r\n0\r\n\r\n", whole);
}

int main(int argc, char **argv) {
    static char data[1 << 18];
    static struct epoll_event ready[1024];
    int port = 0, streams = 64;
    for (int i = 1; i + 1 < argc; i += 2) {
        char *value = argv[i + 1];
        if (!strcmp(argv[i], "--port")) port = atoi(value);
        else if (!strcmp(argv[i], "--streams")) streams = atoi(value);
        else if (!strcmp(argv[i], "--requests")) requests = atol(value);
        else if (!strcmp(argv[i], "--body")) load_body(value);
        else if (!strcmp(argv[i], "--path")) path = value;
        else if (!strcmp(argv[i], "--out")) out = fopen(value, "w");
        else {
            fprintf(stderr, "floor_client: do not understand %s\n", argv[i]);
            return 2;
        }
    }
    if (streams > requests) streams = (int)requests;
    int poller = epoll_create1(0);
    struct stream *all = calloc((size_t)streams, sizeof *all);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < streams; i++) {
        int on = 1;
        all[i].fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(all[i].fd, (void *)&to, sizeof to)) die("connect");
        setsockopt(all[i].fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        all[i].at = malloc(MAX_EVENTS * sizeof *all[i].at);
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = &all[i]};
        epoll_ctl(poller, EPOLL_CTL_ADD, all[i].fd, &e);
    }
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    uint64_t began = now_ns();
    for (int i = 0; i < streams; i++) launch(&all[i]);
    while (finished < requests) {
        int n = epoll_wait(poller, ready, 1024, 30000);
        if (n <= 0) die("stalled");
        for (int i = 0; i < n; i++) {
            struct stream *s = ready[i].data.ptr;
            ssize_t size = recv(s->fd, data, sizeof data, MSG_DONTWAIT);
            uint64_t when = now_ns();
            if (size < 0 && errno == EAGAIN) continue;
            if (size <= 0) die("closed");
            reads++;
            scan(s, data, (size_t)size, when);
            if (!ended(s, data, (size_t)size)) continue;
            conclude(s);
            if (started < requests) launch(s);
        }
    }
    double wall = (double)(now_ns() - began) / 1e9;
    getrusage(RUSAGE_SELF, &after);
    double cpu = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) +
                 (double)(after.ru_stime.tv_sec - before.ru_stime.tv_sec) +
                 (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec) / 1e6 +
                 (double)(after.ru_stime.tv_usec - before.ru_stime.tv_usec) / 1e6;
    printf("{\"events\":%lu,\"reads\":%lu,\"wall_s\":%.6f,\"cpu_s\":%.6f}\n", events, reads, wall, cpu);
    if (out && fclose(out)) die("out");
    return 0;
}
