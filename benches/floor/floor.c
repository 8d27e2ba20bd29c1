/*
 * What running N trivial commands costs at the least, in one thread of C. Each level adds one duty:
 *
 *   spawn    posix_spawn of the program, waitpid
 *   shell    through `sh -c`, each in a process group of its own, nothing to read, pidfd and poll
 *   capture  and two pipes a node, moved into one log file a node as they come
 *   journal  and two lines a node in a journal, one fdatasync for each wake-up that has something new
 *   direct   like `journal`, without the shell
 *
 * floor LEVEL COUNT PARALLEL FOLDER COMMAND        FOLDER is made anew and holds logs and journal
 * floor LEVEL COUNT PARALLEL FOLDER COMMAND chain  each begins when the one before has ended: PARALLEL is 1
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum level { SPAWN, SHELL, CAPTURE, JOURNAL, DIRECT };

struct node {
    int number, pidfd, out, err, log;
    pid_t pid;
};

static enum level level;
static const char *folder, *command;
static char lines[1 << 16];
static size_t lines_length;
static int journal = -1;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void note(const char *event, int number, int extra) {
    struct timespec now;
    if (level < JOURNAL)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    lines_length += (size_t)snprintf(
        lines + lines_length, sizeof lines - lines_length,
        "{\"seq\":%d,\"ts\":\"%lld.%09ld\",\"leg\":1,\"gen\":1,\"event\":\"node.%s\",\"node\":\"n%d\",\"attempt\":1,"
        "\"intent\":\"g1-%d\",\"extra\":%d}\n",
        number * 2 + 1, (long long)now.tv_sec, now.tv_nsec, event, number, number, extra);
}

static void sync_journal(void) {
    if (level < JOURNAL || lines_length == 0)
        return;
    if (write(journal, lines, lines_length) != (ssize_t)lines_length || fdatasync(journal) != 0)
        fail("journal");
    lines_length = 0;
}

static void start(struct node *node, int number) {
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char path[4096];
    char *shell_argv[] = {"sh", "-c", (char *)command, NULL};
    char *direct_argv[] = {(char *)command, NULL};
    int shell = level != SPAWN && level != DIRECT;

    node->number = number;
    node->log = -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    if (level >= SHELL) {
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
        posix_spawnattr_setpgroup(&attributes, 0);
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    }
    if (level >= CAPTURE) {
        if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
            fail("pipe2");
        posix_spawn_file_actions_adddup2(&actions, out[1], 1);
        posix_spawn_file_actions_adddup2(&actions, err[1], 2);
        snprintf(path, sizeof path, "%s/n%d.log", folder, number);
        node->log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (node->log < 0)
            fail(path);
    }
    int error = posix_spawnp(&node->pid, shell ? "/bin/sh" : command, &actions, &attributes,
                             shell ? shell_argv : direct_argv, environ);
    if (error != 0) {
        errno = error;
        fail("posix_spawn");
    }
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (level >= CAPTURE) {
        close(out[1]);
        close(err[1]);
        fcntl(out[0], F_SETFL, O_NONBLOCK);
        fcntl(err[0], F_SETFL, O_NONBLOCK);
    }
    node->out = out[0];
    node->err = err[0];
    node->pidfd = level >= SHELL ? (int)syscall(SYS_pidfd_open, node->pid, 0) : -1;
}

/* Moves what is there into the log; returns whether the pipe is at its end. */
static int drain(int from, int to) {
    char buffer[65536];
    for (;;) {
        ssize_t got = read(from, buffer, sizeof buffer);
        if (got == 0)
            return 1;
        if (got < 0)
            return errno != EAGAIN;
        if (write(to, buffer, (size_t)got) != got)
            fail("log");
    }
}

static void finish(struct node *node) {
    if (node->out >= 0)
        drain(node->out, node->log), close(node->out);
    if (node->err >= 0)
        drain(node->err, node->log), close(node->err);
    if (node->log >= 0)
        close(node->log);
    if (node->pidfd >= 0)
        close(node->pidfd);
    node->pid = 0;
}

static void run_bare(int count, int parallel) {
    int started = 0, alive = 0, status;
    while (started < count || alive > 0) {
        struct node node;
        while (started < count && alive < parallel) {
            start(&node, started++);
            alive++;
        }
        if (waitpid(-1, &status, 0) > 0)
            alive--;
    }
}

static void run_polled(int count, int parallel) {
    struct node *nodes = calloc((size_t)parallel, sizeof *nodes);
    struct pollfd *fds = calloc((size_t)parallel * 3, sizeof *fds);
    int started = 0, alive = 0, status;
    while (started < count || alive > 0) {
        int first = started;
        for (int slot = 0; slot < parallel && started < count; slot++)
            if (nodes[slot].pid == 0)
                note("start", started++, slot);
        sync_journal();
        for (int slot = 0; slot < parallel && first < started; slot++)
            if (nodes[slot].pid == 0) {
                start(&nodes[slot], first++);
                alive++;
            }
        for (int slot = 0; slot < parallel; slot++) {
            int on = nodes[slot].pid != 0;
            fds[slot * 3] = (struct pollfd){on ? nodes[slot].pidfd : -1, POLLIN, 0};
            fds[slot * 3 + 1] = (struct pollfd){on ? nodes[slot].out : -1, POLLIN, 0};
            fds[slot * 3 + 2] = (struct pollfd){on ? nodes[slot].err : -1, POLLIN, 0};
        }
        if (poll(fds, (nfds_t)parallel * 3, -1) < 0 && errno != EINTR)
            fail("poll");
        for (int slot = 0; slot < parallel; slot++) {
            struct node *node = &nodes[slot];
            if (node->pid == 0)
                continue;
            if (fds[slot * 3 + 1].revents && drain(node->out, node->log))
                close(node->out), node->out = -1;
            if (fds[slot * 3 + 2].revents && drain(node->err, node->log))
                close(node->err), node->err = -1;
            if (fds[slot * 3].revents && waitpid(node->pid, &status, WNOHANG) == node->pid) {
                note("finish", node->number, status);
                finish(node);
                alive--;
            }
        }
    }
    sync_journal();
}

int main(int argc, char **argv) {
    static const char *names[] = {"spawn", "shell", "capture", "journal", "direct"};
    char path[4096];
    if (argc < 6) {
        fprintf(stderr, "usage: floor spawn|shell|capture|journal|direct COUNT PARALLEL FOLDER COMMAND [chain]\n");
        return 2;
    }
    for (level = SPAWN; level <= DIRECT && strcmp(argv[1], names[level]) != 0; level++)
        ;
    if (level > DIRECT)
        return 2;
    int count = atoi(argv[2]), parallel = argc > 6 ? 1 : atoi(argv[3]);
    folder = argv[4];
    command = argv[5];
    mkdir(folder, 0755);
    if (level >= JOURNAL) {
        snprintf(path, sizeof path, "%s/events.jsonl", folder);
        journal = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (journal < 0)
            fail(path);
    }
    if (level == SPAWN)
        run_bare(count, parallel);
    else
        run_polled(count, parallel);
    return 0;
}
