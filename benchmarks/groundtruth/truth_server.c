/* truth_server: an SSE server that knows when it sent what.
 *
 *   truth_server --log FILE [--port 0] [--ttft-us N] [--gap-us N] [--pattern 1,3,2,4] [--step]
 *
 * Speaks enough of SGLang's HTTP API for a load generator: POST /generate, /v1/chat/completions and
 * /v1/completions (always streamed), GET /v1/models, /server_info, /health. One thread; absolute
 * deadlines. Prints its port on the first line. On SIGTERM it writes the log: one JSON object a
 * request, with the kernel's receive stamp of the request's last byte (SO_TIMESTAMPNS, moved to
 * CLOCK_MONOTONIC) and, for each content event, CLOCK_MONOTONIC just before its send() and its tokens.
 *
 * The first event holds one token (the prefill's); the following ones are verify steps that hold
 * --pattern tokens in turn, the last one cut at max_tokens. --step lets all streams emit at the
 * same tick, as a batching engine does. Loopback only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FD = 65536, MAX_TOKENS = 65536, WORD = 6, WORDS = 10000, MAX_PATTERN = 64, MAX_DRAFTS = 64 };
enum api { GENERATE, CHAT, COMPLETIONS };

struct request {
    char id[80];
    enum api api;
    int first;              /* its first word: who loses the id still knows the request by it */
    int wanted, sent, events, steps, accepted, capacity;
    bool each_usage, details;
    int histogram[MAX_DRAFTS];
    uint64_t received, *at;
    uint16_t *tokens;
    bool aborted;
};

struct connection {
    int fd, place;          /* place in the heap, -1 outside */
    uint64_t due, received;
    char *in, *out;
    size_t in_used, in_size, out_used, out_sent, out_size;
    struct request *now;
    struct connection *next_dead;
};

static uint64_t ttft_ns = 50000000, gap_ns = 10000000;
static int pattern[MAX_PATTERN] = {1}, patterns = 1;
static bool in_step;
static int poller;
static volatile sig_atomic_t stopping;
static struct connection *heap[MAX_FD], *dead;
static int heaped;
static struct request **done;
static size_t done_count, done_size;
static char words[(MAX_TOKENS + WORDS + 1) * WORD], ids[sizeof words];
static char event[MAX_TOKENS * WORD * 2 + 4096], packet[sizeof event + 64];

static uint64_t clock_ns(clockid_t which) {
    struct timespec t;
    clock_gettime(which, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

/* ---- a binary heap of connections by deadline ------------------------------------------------- */

static void put(int place, struct connection *c) {
    heap[place] = c;
    c->place = place;
}

static void sift(int place, struct connection *c) {
    while (place > 0 && heap[(place - 1) / 2]->due > c->due) {
        put(place, heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    for (;;) {
        int child = 2 * place + 1;
        if (child >= heaped) break;
        if (child + 1 < heaped && heap[child + 1]->due < heap[child]->due) child++;
        if (heap[child]->due >= c->due) break;
        put(place, heap[child]);
        place = child;
    }
    put(place, c);
}

static void schedule(struct connection *c, uint64_t due) {
    c->due = due;
    sift(c->place >= 0 ? c->place : heaped++, c);
}

static void unschedule(struct connection *c) {
    if (c->place < 0) return;
    int place = c->place;
    struct connection *last = heap[--heaped];
    c->place = -1;
    if (last != c) sift(place, last);
}

/* ---- sending ---------------------------------------------------------------------------------- */

static void watch(struct connection *c, uint32_t mask) {
    struct epoll_event e = {.events = mask, .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e);
}

static void keep(struct request *r) {
    if (done_count == done_size) {
        done_size = done_size ? 2 * done_size : 1024;
        done = realloc(done, done_size * sizeof *done);
        if (!done) die("memory");
    }
    done[done_count++] = r;
}

static void hang_up(struct connection *c) {
    if (c->fd < 0) return;
    unschedule(c);
    if (c->now) {
        c->now->aborted = true;
        keep(c->now);
        c->now = NULL;
    }
    close(c->fd);
    c->fd = -1;
    c->next_dead = dead;
    dead = c;
}

static void transmit(struct connection *c, const char *data, size_t size) {
    if (c->fd < 0) return;
    if (c->out_used == c->out_sent) {
        ssize_t n = send(c->fd, data, size, MSG_NOSIGNAL);
        if (n == (ssize_t)size) return;
        if (n < 0 && errno != EAGAIN) {
            hang_up(c);
            return;
        }
        if (n > 0) data += n, size -= (size_t)n;
        c->out_used = c->out_sent = 0;
        watch(c, EPOLLIN | EPOLLOUT);
    }
    if (c->out_used + size > c->out_size) {
        c->out_size = 2 * (c->out_used + size);
        c->out = realloc(c->out, c->out_size);
        if (!c->out) die("memory");
    }
    memcpy(c->out + c->out_used, data, size);
    c->out_used += size;
}

static void go_on_sending(struct connection *c) {
    ssize_t n = send(c->fd, c->out + c->out_sent, c->out_used - c->out_sent, MSG_NOSIGNAL);
    if (n > 0) c->out_sent += (size_t)n;
    if (c->out_sent == c->out_used) watch(c, EPOLLIN);
}

/* One HTTP chunk, in one send(), as uvicorn does. */
static void send_chunk(struct connection *c, int size) {
    int head = sprintf(packet, "%x\r\n", size);
    memcpy(packet + head, event, (size_t)size);
    memcpy(packet + head + size, "\r\n", 2);
    transmit(c, packet, (size_t)(head + size + 2));
}

/* ---- the events of a stream, in the shapes of SGLang 0.5.23 ------------------------------------- */

static int spec_details(char *to, const struct request *r) {
    int drafts = 1, n;
    for (int i = 0; i < MAX_DRAFTS; i++)
        if (r->histogram[i]) drafts = i + 1;
    n = sprintf(to,
                "\"spec_accept_length\":%.6f,\"spec_num_correct_drafts\":%d,"
                "\"spec_num_proposed_drafts\":%d,\"spec_verify_ct\":%d,"
                "\"spec_correct_drafts_histogram\":[",
                (double)r->sent / r->steps, r->accepted, r->steps * (MAX_DRAFTS - 1), r->steps);
    for (int i = 0; i < drafts; i++) n += sprintf(to + n, i ? ",%d" : "%d", r->histogram[i]);
    return n + sprintf(to + n, "]");
}

static int openai_head(char *to, const struct request *r) {
    return sprintf(to, "data: {\"id\":\"%s\",\"object\":\"%s\",\"created\":1700000000,\"model\":\"truth\"",
                   r->id, r->api == CHAT ? "chat.completion.chunk" : "text_completion");
}

static int usage(char *to, const struct request *r) {
    return sprintf(to, ",\"usage\":{\"prompt_tokens\":8,\"total_tokens\":%d,\"completion_tokens\":%d}",
                   8 + r->sent, r->sent);
}

static void send_role(struct connection *c) {
    int n = openai_head(event, c->now);
    n += sprintf(event + n, ",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":"
                            "\"\"},\"logprobs\":null,\"finish_reason\":null}]");
    if (c->now->each_usage) n += usage(event + n, c->now);
    send_chunk(c, n + sprintf(event + n, "}\n\n"));
}

static int generate_event(const struct request *r, bool last) {
    int n = sprintf(event, "data: {\"text\":\"%.*s\",\"output_ids\":[%.*s],\"meta_info\":{\"id\":\"%s\",",
                    r->sent * WORD, words + r->first * WORD, r->sent * WORD - 1, ids + r->first * WORD, r->id);
    n += sprintf(event + n, "\"finish_reason\":%s,\"prompt_tokens\":8,\"num_retractions\":0,"
                            "\"completion_tokens\":%d,\"cached_tokens\":0",
                 last ? "{\"type\":\"length\"}" : "null", r->sent);
    if (last && r->steps) {
        event[n++] = ',';
        n += spec_details(event + n, r);
    }
    return n + sprintf(event + n, "}}\n\n");
}

static int openai_event(const struct request *r, int tokens) {
    const char *word = words + (r->first + r->sent - tokens) * WORD;
    int n = openai_head(event, r);
    n += sprintf(event + n,
                 r->api == CHAT ? ",\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":null,"
                                  "\"content\":\"%.*s\"},\"logprobs\":null,\"finish_reason\":null,"
                                  "\"matched_stop\":null}]"
                                : ",\"choices\":[{\"index\":0,\"text\":\"%.*s\",\"logprobs\":null,"
                                  "\"finish_reason\":null,\"matched_stop\":null}]",
                 tokens * WORD, word);
    if (r->each_usage) n += usage(event + n, r);
    return n + sprintf(event + n, "}\n\n");
}

static void send_tail(struct connection *c) {
    struct request *r = c->now;
    int n;
    if (r->api != GENERATE) {
        n = openai_head(event, r);
        n += sprintf(event + n, ",\"choices\":[{\"index\":0,%s,\"logprobs\":null,\"finish_reason\":"
                                "\"length\",\"matched_stop\":null}]}\n\n",
                     r->api == CHAT ? "\"delta\":{}" : "\"text\":\"\"");
        send_chunk(c, n);
        if (r->details && r->steps && patterns > 1) {
            n = openai_head(event, r);
            n += sprintf(event + n, ",\"choices\":[],\"usage\":null,\"sglext\":{\"spec_tokens_details\":{");
            n += spec_details(event + n, r);
            send_chunk(c, n + sprintf(event + n, "}}}\n\n"));
        }
        n = openai_head(event, r);
        n += sprintf(event + n, ",\"choices\":[]");
        n += usage(event + n, r);
        send_chunk(c, n + sprintf(event + n, "}\n\n"));
    }
    send_chunk(c, sprintf(event, "data: [DONE]\n\n"));
    transmit(c, "0\r\n\r\n", 5);
}

static void handle_input(struct connection *c);

static void emit(struct connection *c) {
    static const char head[] = "HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; "
                               "charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
    struct request *r = c->now;
    int tokens = 1;
    if (!r->events) {
        transmit(c, head, sizeof head - 1);
        if (r->api == CHAT) send_role(c);
    } else {
        tokens = pattern[(r->events - 1) % patterns];
        r->steps++;
        r->accepted += tokens - 1;
        r->histogram[tokens - 1]++;
        if (tokens > r->wanted - r->sent) tokens = r->wanted - r->sent;
    }
    r->sent += tokens;
    int size = r->api == GENERATE ? generate_event(r, r->sent >= r->wanted) : openai_event(r, tokens);
    if (c->fd < 0) return;
    r->tokens[r->events] = (uint16_t)tokens;
    r->at[r->events++] = clock_ns(CLOCK_MONOTONIC);
    send_chunk(c, size);
    if (c->fd < 0) return;
    if (r->sent < r->wanted) {
        schedule(c, c->due + gap_ns);
        return;
    }
    unschedule(c);
    send_tail(c);
    if (c->fd < 0) return;
    keep(r);
    c->now = NULL;
    handle_input(c);
}

/* ---- requests --------------------------------------------------------------------------------- */

static void reply(struct connection *c, const char *body) {
    int n = snprintf(packet, sizeof packet,
                     "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
                     strlen(body), body);
    transmit(c, packet, (size_t)n);
}

static const char *find(const char *in, size_t size, const char *what) {
    return memmem(in, size, what, strlen(what));
}

static void begin(struct connection *c, enum api api, const char *head, size_t head_size,
                  const char *body, size_t size) {
    static unsigned long number;
    struct request *r = calloc(1, sizeof *r);
    const char *id = find(head, head_size, "X-Request-Id: ");
    const char *limit = find(body, size, api == GENERATE ? "\"max_new_tokens\":" : "\"max_tokens\":");
    if (!r) die("memory");
    snprintf(r->id, sizeof r->id, "truth-%lu", ++number);
    r->first = (int)(number % WORDS);
    if (id) sscanf(id + 14, "%79[A-Za-z0-9._-]", r->id);
    r->api = api;
    r->wanted = limit ? atoi(strchr(limit, ':') + 1) : 16;
    if (r->wanted < 1) r->wanted = 1;
    if (r->wanted > MAX_TOKENS) r->wanted = MAX_TOKENS;
    r->each_usage = find(body, size, "\"continuous_usage_stats\":true") != NULL;
    r->details = find(body, size, "\"return_spec_tokens_details\":true") != NULL;
    r->received = c->received;
    r->at = malloc((size_t)r->wanted * sizeof *r->at);
    r->tokens = malloc((size_t)r->wanted * sizeof *r->tokens);
    if (!r->at || !r->tokens) die("memory");
    c->now = r;
    uint64_t due = c->received + ttft_ns;
    if (in_step && gap_ns) due = (due / gap_ns + 1) * gap_ns;
    schedule(c, due);
}

static void route(struct connection *c, const char *head, size_t head_size, const char *body, size_t size) {
    if (!strncmp(head, "POST /generate ", 15)) begin(c, GENERATE, head, head_size, body, size);
    else if (!strncmp(head, "POST /v1/chat/completions ", 26)) begin(c, CHAT, head, head_size, body, size);
    else if (!strncmp(head, "POST /v1/completions ", 21)) begin(c, COMPLETIONS, head, head_size, body, size);
    else if (!strncmp(head, "GET /v1/models ", 15))
        reply(c, "{\"object\":\"list\",\"data\":[{\"id\":\"truth\",\"object\":\"model\",\"owned_by\":\"sglang\"}]}");
    else if (!strncmp(head, "GET /server_info ", 17))
        reply(c, patterns > 1 ? "{\"speculative_algorithm\":\"EAGLE\",\"version\":\"0.5.23\",\"internal_states\":[]}"
                              : "{\"speculative_algorithm\":null,\"version\":\"0.5.23\",\"internal_states\":[]}");
    else reply(c, "{}");
}

static void handle_input(struct connection *c) {
    while (c->fd >= 0 && !c->now) {
        char *end = memmem(c->in, c->in_used, "\r\n\r\n", 4);
        if (!end) return;
        size_t head = (size_t)(end - c->in) + 4, body = 0;
        const char *length = strcasestr(c->in, "\r\ncontent-length:");
        if (length && length < end) body = strtoul(length + 17, NULL, 10);
        if (c->in_used < head + body) return;
        route(c, c->in, head, c->in + head, body);
        memmove(c->in, c->in + head + body, c->in_used - head - body);
        c->in_used -= head + body;
        c->in[c->in_used] = 0;
    }
}

static void take_input(struct connection *c) {
    for (;;) {
        char control[CMSG_SPACE(sizeof(struct timespec))];
        if (c->in_size - c->in_used < 4096) {
            c->in_size = 2 * c->in_size + 8192;
            c->in = realloc(c->in, c->in_size);
            if (!c->in) die("memory");
        }
        struct iovec room = {c->in + c->in_used, c->in_size - c->in_used - 1};
        struct msghdr message = {.msg_iov = &room, .msg_iovlen = 1,
                                 .msg_control = control, .msg_controllen = sizeof control};
        ssize_t n = recvmsg(c->fd, &message, 0);
        if (n < 0 && errno == EAGAIN) break;
        if (n <= 0) {
            hang_up(c);
            return;
        }
        uint64_t now = clock_ns(CLOCK_MONOTONIC), wall = clock_ns(CLOCK_REALTIME);
        struct cmsghdr *stamp = CMSG_FIRSTHDR(&message);
        c->received = now;
        if (stamp && stamp->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec t;
            memcpy(&t, CMSG_DATA(stamp), sizeof t);
            uint64_t arrived = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
            if (arrived <= wall) c->received = now - (wall - arrived);
        }
        c->in_used += (size_t)n;
        c->in[c->in_used] = 0;
        if ((size_t)n < room.iov_len) break;
    }
    handle_input(c);
}

static void accept_all(int listener) {
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), on = 1;
        if (fd < 0) return;
        struct connection *c = calloc(1, sizeof *c);
        if (!c || fd >= MAX_FD) die("accept");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
        c->fd = fd;
        c->place = -1;
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
    }
}

/* ---- the log, and the loop -------------------------------------------------------------------- */

static void write_log(const char *path) {
    static const char *const apis[] = {"generate", "chat", "completions"};
    FILE *to = fopen(path, "w");
    if (!to) die(path);
    for (size_t i = 0; i < done_count; i++) {
        struct request *r = done[i];
        fprintf(to, "{\"id\":\"%s\",\"api\":\"%s\",\"received_ns\":%lu,\"aborted\":%s,\"tokens\":[", r->id,
                apis[r->api], r->received, r->aborted ? "true" : "false");
        for (int j = 0; j < r->events; j++) fprintf(to, j ? ",%u" : "%u", r->tokens[j]);
        fputs("],\"at_ns\":[", to);
        for (int j = 0; j < r->events; j++) fprintf(to, j ? ",%lu" : "%lu", r->at[j]);
        fputs("]}\n", to);
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    if (fclose(to)) die(path);
    fprintf(stderr, "truth_server: %zu requests, %.3f s CPU\n", done_count,
            (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
}

static void stop(int signal_number) {
    (void)signal_number;
    stopping = 1;
}

static void serve(int listener) {
    static struct epoll_event events[1024];
    while (!stopping) {
        uint64_t now = clock_ns(CLOCK_MONOTONIC);
        while (heaped && heap[0]->due <= now) emit(heap[0]);
        struct timespec wait = {1, 0};
        if (heaped) {
            now = clock_ns(CLOCK_MONOTONIC);
            uint64_t left = heap[0]->due > now ? heap[0]->due - now : 0;
            wait = (struct timespec){(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
        }
        int n = epoll_pwait2(poller, events, 1024, &wait, NULL);
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (!c) accept_all(listener);
            if (c && c->fd >= 0 && events[i].events & EPOLLOUT) go_on_sending(c);
            if (c && c->fd >= 0 && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) take_input(c);
        }
        while (dead) {
            struct connection *c = dead;
            dead = c->next_dead;
            free(c->in);
            free(c->out);
            free(c);
        }
    }
}

static void set_pattern(char *text) {
    patterns = 0;
    for (char *part = strtok(text, ","); part && patterns < MAX_PATTERN; part = strtok(NULL, ",")) {
        int tokens = atoi(part);
        if (tokens < 1 || tokens > MAX_DRAFTS) {
            fprintf(stderr, "truth_server: a pattern holds numbers from 1 to %d\n", MAX_DRAFTS);
            exit(2);
        }
        pattern[patterns++] = tokens;
    }
}

int main(int argc, char **argv) {
    int port = 0, on = 1;
    const char *log = NULL;
    for (int i = 1; i < argc; i++) {
        char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--step")) in_step = true;
        else if (value && !strcmp(argv[i], "--port")) port = atoi(value), i++;
        else if (value && !strcmp(argv[i], "--log")) log = value, i++;
        else if (value && !strcmp(argv[i], "--ttft-us")) ttft_ns = strtoull(value, NULL, 10) * 1000, i++;
        else if (value && !strcmp(argv[i], "--gap-us")) gap_ns = strtoull(value, NULL, 10) * 1000, i++;
        else if (value && !strcmp(argv[i], "--pattern")) set_pattern(value), i++;
        else {
            fprintf(stderr, "truth_server: do not understand %s\n", argv[i]);
            return 2;
        }
    }
    for (int i = 0; i <= MAX_TOKENS + WORDS; i++) {
        char word[WORD + 1];
        snprintf(word, sizeof word, " w%04d", i % WORDS);
        memcpy(words + i * WORD, word, WORD);
        snprintf(word, sizeof word, "%05d,", WORDS + i % WORDS);
        memcpy(ids + i * WORD, word, WORD);
    }
    struct sigaction end = {.sa_handler = stop};
    sigaction(SIGTERM, &end, NULL);
    sigaction(SIGINT, &end, NULL);
    prctl(PR_SET_TIMERSLACK, 1UL);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max < MAX_FD ? files.rlim_max : MAX_FD;
    setrlimit(RLIMIT_NOFILE, &files);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 4096)) die("truth_server: port");
    getsockname(listener, (void *)&address, &size);
    poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &e);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    serve(listener);
    if (log) write_log(log);
    return 0;
}
