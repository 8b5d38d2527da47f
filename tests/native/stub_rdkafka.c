/* The part of librdkafka that the loops of native/_partition_queue.c call, with messages that a test has written: so that every kind of message comes, in
   any order, and a sanitizer sees every read. What it hands out is exactly as large as it says. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef struct {
    int err;
    void *topic;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *own;
} Message;

typedef struct {
    char *name[8];
    void *value[8];
    size_t size[8], count;
    int64_t time;
} Own;

static Message *waiting[4096];
static size_t first, last, alive;
static void *python_client;

static void *copy_of(const void *data, size_t size) { return data ? memcpy(malloc(size ? size : 1), data, size) : NULL; }

/* ---- what the test calls */

void stub_client(void *object) { python_client = object; }
size_t stub_alive(void) { return alive; }

void stub_add(int err, int64_t offset, const void *key, size_t key_size, const void *value, size_t size, int64_t time) {
    Message *made = calloc(1, sizeof *made);
    Own *own = calloc(1, sizeof *own);
    *made = (Message){err, NULL, 0, copy_of(value, size), value ? size : 0, copy_of(key, key_size), key ? key_size : 0, offset, own};
    own->time = time;
    waiting[last++] = made;
    alive++;
}

void stub_header(const char *name, const void *value, size_t size) {
    Own *own = waiting[last - 1]->own;
    own->name[own->count] = copy_of(name, strlen(name) + 1);
    own->value[own->count] = copy_of(value, size);
    own->size[own->count++] = size;
}

/* ---- what the loops call */

void *rd_kafka_opaque(const void *client) { return python_client; }
int rd_kafka_conf_interceptor_add_on_new(void *conf, const char *name, int (*told)(void *, const void *, void *, char *, size_t), void *ours) {
    return told(conf, NULL, ours, NULL, 0);
}
int rd_kafka_interceptor_add_on_destroy(void *handle, const char *name, void *told, void *ours) { return 0; }
int rd_kafka_interceptor_add_on_acknowledgement(void *handle, const char *name, void *told, void *ours) { return 0; }
void *rd_kafka_queue_get_partition(void *client, const char *topic, int32_t partition) { return malloc(1); }
void rd_kafka_queue_forward(void *from, void *to) {}
void rd_kafka_queue_destroy(void *queue) { free(queue); }

ssize_t rd_kafka_consume_batch_queue(void *queue, int timeout_ms, Message **messages, size_t most) {
    size_t count = 0;
    while (count < most && first < last)
        messages[count++] = waiting[first++];
    if (first == last)
        first = last = 0;
    return (ssize_t)count;
}

void rd_kafka_message_destroy(Message *message) {
    Own *own = message->own;
    for (size_t i = 0; i < own->count; i++) {
        free(own->name[i]);
        free(own->value[i]);
    }
    free(own);
    free(message->payload);
    free(message->key);
    free(message);
    alive--;
}

int64_t rd_kafka_message_timestamp(const Message *message, int *kind) {
    *kind = 1;
    return ((Own *)message->own)->time;
}

int rd_kafka_message_headers(const Message *message, void **headers) {
    *headers = message->own;
    return ((Own *)message->own)->count ? 0 : -156;
}

int rd_kafka_header_get_all(const void *headers, size_t at, const char **name, const void **value, size_t *size) {
    const Own *own = headers;
    if (at >= own->count)
        return -156;
    *name = own->name[at];
    *value = own->value[at];
    *size = own->size[at];
    return 0;
}

/* of the row that is written, which is not called here */
const char *rd_kafka_topic_name(const void *topic) { return "t"; }
int rd_kafka_producev(void *client, ...) { return -1; }
void *rd_kafka_headers_new(size_t count) { return NULL; }
void rd_kafka_headers_destroy(void *headers) {}
int rd_kafka_header_add(void *headers, const char *name, ssize_t name_size, const void *value, ssize_t size) { return -1; }
