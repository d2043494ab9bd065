/* An MQTT broker that does nothing: what delays are there when a broker costs nothing? `cc -O2 -o echo mqtt_echo.c; echo PORT`

It answers what `mqtt_load.py` sends, hands each PUBLISH to every subscriber whatever its topic, and keeps no window, no
session and no message. All that is read at once is written in one piece to each. So its delays are those of the client
and of the kernel, and a broker can hardly have shorter ones at the same rate. It trusts its client. */

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST 4096

struct bytes {
    unsigned char *data;
    size_t size, room;
};

struct client {
    int fd, is_waiting;
    unsigned short last_id;
    struct bytes in, out;
};

static struct client *clients[MOST];
static int subscribers[MOST], subscriber_count;
static int waiting[MOST], waiting_count; /* clients with output */

static void append(struct bytes *bytes, const void *data, size_t size) {
    if (bytes->size + size > bytes->room) {
        bytes->room = 2 * (bytes->size + size);
        bytes->data = realloc(bytes->data, bytes->room);
    }
    memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

static void drop_first(struct bytes *bytes, size_t size) {
    memmove(bytes->data, bytes->data + size, bytes->size - size);
    bytes->size -= size;
}

static void say(struct client *client, const void *data, size_t size) {
    append(&client->out, data, size);
    if (!client->is_waiting) {
        client->is_waiting = 1;
        waiting[waiting_count++] = client->fd;
    }
}

static void answer(struct client *client, int first, const unsigned char *id) {
    unsigned char packet[4] = {first, 2, id[0], id[1]};
    say(client, packet, 4);
}

/* One whole packet, with `head` octets before its body. */
static void act(struct client *client, unsigned char *packet, size_t size, size_t head) {
    int first = packet[0];
    unsigned char *body = packet + head;
    if (first == 0x10) {
        say(client, "\x20\x02\0\0", 4);
    } else if (first == 0x82) { /* one filter; its QoS is granted */
        unsigned char suback[5] = {0x90, 3, body[0], body[1], packet[size - 1]};
        subscribers[subscriber_count++] = client->fd;
        say(client, suback, 5);
    } else if ((first & 0xf0) == 0x30) {
        int qos = first >> 1 & 3;
        unsigned char *id = body + 2 + (body[0] << 8 | body[1]);
        if (qos)
            answer(client, qos == 1 ? 0x40 : 0x50, id);
        for (int index = 0; index < subscriber_count; index++) {
            struct client *subscriber = clients[subscribers[index]];
            if (qos) {
                if (!++subscriber->last_id)
                    subscriber->last_id = 1;
                id[0] = subscriber->last_id >> 8;
                id[1] = subscriber->last_id & 0xff;
            }
            say(subscriber, packet, size);
        }
    } else if (first == 0x50) {
        answer(client, 0x62, body);
    } else if (first == 0x62) {
        answer(client, 0x70, body);
    }
}

static void act_on_all(struct client *client) {
    unsigned char *data = client->in.data;
    size_t offset = 0, size = client->in.size;
    while (size - offset >= 2) {
        size_t head = 1, length = 0, shift = 0, is_whole = 0;
        while (!is_whole && offset + head < size) {
            unsigned char octet = data[offset + head++];
            length |= (size_t)(octet & 127) << shift;
            shift += 7;
            is_whole = octet < 128;
        }
        if (!is_whole || size - offset < head + length)
            break;
        act(client, data + offset, head + length, head);
        offset += head + length;
    }
    drop_first(&client->in, offset);
}

static void forget(int *list, int *count, int fd) {
    for (int index = 0; index < *count; index++)
        if (list[index] == fd) {
            list[index] = list[--*count];
            return;
        }
}

static void end(struct client *client) {
    forget(subscribers, &subscriber_count, client->fd);
    forget(waiting, &waiting_count, client->fd);
    clients[client->fd] = NULL;
    close(client->fd);
    free(client->in.data);
    free(client->out.data);
    free(client);
}

static void write_all(void) {
    int count = waiting_count;
    waiting_count = 0;
    for (int index = 0; index < count; index++) {
        struct client *client = clients[waiting[index]];
        ssize_t sent = send(client->fd, client->out.data, client->out.size, MSG_NOSIGNAL);
        if (sent > 0)
            drop_first(&client->out, sent);
        client->is_waiting = client->out.size > 0;
        if (client->is_waiting)
            waiting[waiting_count++] = client->fd;
    }
}

int main(int count, char **arguments) {
    static unsigned char buffer[1 << 18];
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0), poller = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[256];
    if (count != 2)
        return 2;
    address.sin_port = htons(atoi(arguments[1]));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1000))
        return 1;
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int ready = epoll_wait(poller, events, 256, waiting_count ? 1 : -1);
        for (int index = 0; index < ready; index++) {
            int fd = events[index].data.fd;
            if (fd == listener) {
                fd = accept(listener, NULL, NULL);
                if (fd < 0 || fd >= MOST)
                    return 1;
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                fcntl(fd, F_SETFL, O_NONBLOCK);
                clients[fd] = calloc(1, sizeof(struct client));
                clients[fd]->fd = event.data.fd = fd;
                epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
                continue;
            }
            ssize_t size = recv(fd, buffer, sizeof buffer, 0);
            if (size <= 0) {
                end(clients[fd]);
                continue;
            }
            append(&clients[fd]->in, buffer, size);
            act_on_all(clients[fd]);
        }
        write_all();
    }
}
