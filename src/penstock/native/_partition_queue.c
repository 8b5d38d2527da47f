/* The records that a consumer has fetched of one partition as Arrow columns, without a Python object for each record.

   The clients are those of confluent_kafka, made, configured, served and closed there. Only its librdkafka is called here, by its public
   interface, of which the declarations below are a part; it is found through the module that is loaded already, so that it is the very
   same library. A client that names this library in `plugin.library.paths` tells it of itself when it is made (`conf_init`), and is
   known by its opaque, which is the Python object.

   INVARIANT: nothing here serves callbacks. Those of confluent_kafka need a state that only its own calls have. */

#include "columns.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

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

typedef int (*OnNew)(void *handle, const void *conf, void *ours, char *error, size_t size);
typedef int (*OnDestroy)(void *handle, void *ours);
typedef int (*OnAcknowledged)(void *handle, Message *message, void *ours);

enum { V_END, V_TOPIC, V_RKT, V_PARTITION, V_VALUE, V_KEY, V_OPAQUE, V_MSGFLAGS, V_TIMESTAMP, V_HEADER, V_HEADERS };
enum { COPY = 2, PARTITION_EOF = -191 };

static struct {
    void *(*opaque)(const void *client);
    const char *(*topic_name)(const void *topic);
    int (*producev)(void *client, ...);
    int (*add_on_new)(void *conf, const char *name, OnNew told, void *ours);
    int (*add_on_destroy)(void *handle, const char *name, OnDestroy told, void *ours);
    int (*add_on_acknowledgement)(void *handle, const char *name, OnAcknowledged told, void *ours);
    void *(*queue_get_partition)(void *client, const char *topic, int32_t partition);
    void (*queue_forward)(void *from, void *to);
    void (*queue_destroy)(void *queue);
    ssize_t (*consume_batch_queue)(void *queue, int timeout_ms, Message **messages, size_t most);
    void (*message_destroy)(Message *message);
    int64_t (*message_timestamp)(const Message *message, int *kind);
    int (*message_headers)(const Message *message, void **headers);
    int (*header_get_all)(const void *headers, size_t at, const char **name, const void **value, size_t *size);
    void *(*headers_new)(size_t count);
    void (*headers_destroy)(void *headers);
    int (*header_add)(void *headers, const char *name, ssize_t name_size, const void *value, ssize_t size);
} rd;

static const struct {
    const char *name;
    void *place;
} SYMBOLS[] = {
    {"rd_kafka_opaque", &rd.opaque},
    {"rd_kafka_topic_name", &rd.topic_name},
    {"rd_kafka_producev", &rd.producev},
    {"rd_kafka_conf_interceptor_add_on_new", &rd.add_on_new},
    {"rd_kafka_interceptor_add_on_destroy", &rd.add_on_destroy},
    {"rd_kafka_interceptor_add_on_acknowledgement", &rd.add_on_acknowledgement},
    {"rd_kafka_queue_get_partition", &rd.queue_get_partition},
    {"rd_kafka_queue_forward", &rd.queue_forward},
    {"rd_kafka_queue_destroy", &rd.queue_destroy},
    {"rd_kafka_consume_batch_queue", &rd.consume_batch_queue},
    {"rd_kafka_message_destroy", &rd.message_destroy},
    {"rd_kafka_message_timestamp", &rd.message_timestamp},
    {"rd_kafka_message_headers", &rd.message_headers},
    {"rd_kafka_header_get_all", &rd.header_get_all},
    {"rd_kafka_headers_new", &rd.headers_new},
    {"rd_kafka_headers_destroy", &rd.headers_destroy},
    {"rd_kafka_header_add", &rd.header_add},
};

static PyObject *link_to(PyObject *module, PyObject *path) {
    const char *file = PyUnicode_AsUTF8AndSize(path, NULL);
    if (!file)
        return NULL;
    void *library = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
    if (!library) {
        PyErr_Format(PyExc_ImportError, "%s is not loaded", file);
        return NULL;
    }
    for (size_t i = 0; i < sizeof SYMBOLS / sizeof *SYMBOLS; i++) {
        void *found = dlsym(library, SYMBOLS[i].name);
        if (!found) {
            PyErr_Format(PyExc_ImportError, "%s has no %s", file, SYMBOLS[i].name);
            return NULL;
        }
        memcpy(SYMBOLS[i].place, &found, sizeof found);
    }
    Py_RETURN_NONE;
}

/* ---- the clients of this process, and rows that they could not deliver */

typedef struct Client {
    void *handle;
    struct Client *next;
    int failed, code; /* of the first one that failed: */
    int32_t partition;
    char topic[250];
} Client;

static Client *clients;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER; /* of the list and of what failed */

static int on_acknowledged(void *handle, Message *message, void *ours) {
    Client *client = ours;
    if (message->err) {
        pthread_mutex_lock(&guard);
        if (client->failed++ == 0) {
            client->code = message->err;
            client->partition = message->partition;
            strncpy(client->topic, message->topic ? rd.topic_name(message->topic) : "?", sizeof client->topic - 1);
        }
        pthread_mutex_unlock(&guard);
    }
    return 0;
}

static int on_destroy(void *handle, void *ours) {
    pthread_mutex_lock(&guard);
    for (Client **at = &clients; *at; at = &(*at)->next)
        if (*at == ours) {
            *at = (*at)->next;
            break;
        }
    pthread_mutex_unlock(&guard);
    free(ours);
    return 0;
}

static int on_new(void *handle, const void *conf, void *ours, char *error, size_t size) {
    Client *client = calloc(1, sizeof *client);
    if (!client)
        return -1;
    client->handle = handle;
    int code = rd.add_on_destroy(handle, "penstock", on_destroy, client);
    if (!code)
        code = rd.add_on_acknowledgement(handle, "penstock", on_acknowledged, client);
    pthread_mutex_lock(&guard);
    client->next = clients;
    clients = client;
    pthread_mutex_unlock(&guard);
    return code;
}

/* Called by librdkafka when a client is configured that names this library as a plugin. */
__attribute__((visibility("default"))) int conf_init(void *conf, void **ours, char *error, size_t size) {
    if (rd.add_on_new)
        return rd.add_on_new(conf, "penstock", on_new, NULL);
    snprintf(error, size, "this plugin is for the clients of penstock");
    return -1;
}

static Client *client_of(PyObject *object) {
    Client *client;
    pthread_mutex_lock(&guard);
    for (client = clients; client && rd.opaque(client->handle) != object; client = client->next)
        ;
    pthread_mutex_unlock(&guard);
    if (!client)
        PyErr_SetString(PyExc_ValueError, "this client is closed, or was not made with this plugin");
    return client;
}

static void *handle_of(PyObject *object) {
    Client *client = client_of(object);
    return client ? client->handle : NULL;
}

/* failed(client) -> (how many rows since the last call, code, topic, partition of the first) */
static PyObject *failed(PyObject *module, PyObject *object) {
    Client *client = client_of(object);
    if (!client)
        return NULL;
    pthread_mutex_lock(&guard);
    Client told = *client;
    client->failed = 0;
    pthread_mutex_unlock(&guard);
    return Py_BuildValue("(iisi)", told.failed, told.code, told.topic, (int)told.partition);
}

/* ---- a row to a producer */

/* Pairs of a name and bytes or None, as librdkafka has them; NULL: an exception is set. */
static void *headers_from(PyObject *given) {
    void *headers = rd.headers_new((size_t)PyTuple_Size(given));
    for (Py_ssize_t i = 0; i < PyTuple_Size(given); i++) {
        const char *name, *value;
        Py_ssize_t name_size, size;
        if (!PyArg_ParseTuple(PyTuple_GetItem(given, i), "y#z#", &name, &name_size, &value, &size) ||
            rd.header_add(headers, name, name_size, value, value ? size : -1)) {
            rd.headers_destroy(headers);
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a header is refused");
            return NULL;
        }
    }
    return headers;
}

/* produce_row(client, topic, partition, key, value, timestamp, headers) -> error code: one row whose headers have names of any bytes, which
   the client itself does not take */
static PyObject *produce_row(PyObject *module, PyObject *given) {
    PyObject *client, *pairs;
    const char *topic, *key, *value;
    Py_ssize_t key_size, value_size;
    long long time;
    int partition;
    if (!PyArg_ParseTuple(given, "Osiz#z#LO!", &client, &topic, &partition, &key, &key_size, &value, &value_size, &time, &PyTuple_Type, &pairs))
        return NULL;
    void *handle = handle_of(client), *headers = handle ? headers_from(pairs) : NULL;
    if (!headers)
        return NULL;
    int code;
    Py_BEGIN_ALLOW_THREADS;
    code = rd.producev(handle, V_TOPIC, topic, V_PARTITION, (int32_t)partition, V_KEY, key, (size_t)key_size, V_VALUE, value,
                       (size_t)value_size, V_TIMESTAMP, time ? (int64_t)time : (int64_t)1, V_HEADERS, headers, V_MSGFLAGS, COPY, V_END);
    if (code) /* else they are the client's */
        rd.headers_destroy(headers);
    Py_END_ALLOW_THREADS;
    return PyLong_FromLong(code);
}

/* ---- records from a consumer */

typedef struct {
    void *queue;
    PyObject *client; /* kept, so that it lives as long as its queue */
} Queue;

static void free_queue(PyObject *capsule) {
    Queue *queue = PyCapsule_GetPointer(capsule, "penstock.queue");
    rd.queue_destroy(queue->queue);
    Py_DECREF(queue->client);
    PyMem_Free(queue);
}

/* Let the records of a partition come to a queue of their own, to which they come for ever after. To be called before the partition is
   assigned: what was fetched by then would be lost. */
static PyObject *open_queue(PyObject *module, PyObject *given) {
    PyObject *client;
    const char *topic;
    int partition;
    if (!PyArg_ParseTuple(given, "Osi", &client, &topic, &partition))
        return NULL;
    void *handle = handle_of(client);
    if (!handle)
        return NULL;
    Queue *queue = PyMem_Calloc(1, sizeof *queue);
    if (!queue)
        return PyErr_NoMemory();
    queue->queue = rd.queue_get_partition(handle, topic, partition);
    if (!queue->queue) {
        PyMem_Free(queue);
        return PyErr_Format(PyExc_ValueError, "the client has no queue for %s-%d", topic, partition);
    }
    rd.queue_forward(queue->queue, NULL);
    Py_INCREF(client);
    queue->client = client;
    return PyCapsule_New(queue, "penstock.queue", free_queue);
}

/* Writes messages as (valid or None, offsets, data); `key`: their keys, else their values. */
static PyObject *column(Message **messages, Py_ssize_t count, int key) {
    size_t total = 0;
    int missing = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        total += key ? messages[i]->key_len : messages[i]->len;
        missing |= !(key ? messages[i]->key : messages[i]->payload);
    }
    if (total > INT32_MAX)
        return PyErr_Format(PyExc_OverflowError, "%zd records hold %zu bytes: too many for one batch", count, total);
    PyObject *valid = missing ? PyBytes_FromStringAndSize(NULL, (count + 7) / 8) : Py_NewRef(Py_None);
    PyObject *offsets = PyBytes_FromStringAndSize(NULL, (count + 1) * 4), *data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    if (!valid || !offsets || !data) {
        Py_XDECREF(valid);
        Py_XDECREF(offsets);
        Py_XDECREF(data);
        return NULL;
    }
    uint8_t *bits = missing ? (uint8_t *)PyBytes_AsString(valid) : NULL;
    int32_t *ends = (int32_t *)PyBytes_AsString(offsets), at = 0;
    char *to = PyBytes_AsString(data);
    if (bits)
        memset(bits, 0, (size_t)(count + 7) / 8);
    ends[0] = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        const void *from = key ? messages[i]->key : messages[i]->payload;
        size_t size = key ? messages[i]->key_len : messages[i]->len;
        if (from) {
            memcpy(to + at, from, size);
            at += (int32_t)size;
            if (bits)
                bits[i >> 3] |= (uint8_t)(1u << (i & 7));
        }
        ends[i + 1] = at;
    }
    return Py_BuildValue("(NNN)", valid, offsets, data);
}

static PyObject *headers_of(const Message *message) {
    void *headers = NULL;
    PyObject *pairs = PyList_New(0);
    if (!pairs || rd.message_headers(message, &headers))
        return pairs;
    const char *name;
    const void *value;
    size_t size;
    for (size_t at = 0; !rd.header_get_all(headers, at, &name, &value, &size); at++) {
        /* bytes that are no UTF-8 are kept as `record.py` says: the policy of the source is asked about them */
        PyObject *text = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "surrogateescape");
        PyObject *pair = !text ? NULL : value ? Py_BuildValue("(Ny#)", text, value, (Py_ssize_t)size) : Py_BuildValue("(NO)", text, Py_None);
        if (!pair || PyList_Append(pairs, pair)) {
            Py_XDECREF(pair);
            Py_DECREF(pairs);
            return NULL;
        }
        Py_DECREF(pair);
    }
    return pairs;
}

/* None if no message has headers, else a tuple of pairs for each. */
static PyObject *all_headers(Message **messages, Py_ssize_t count) {
    void *headers;
    Py_ssize_t first = 0;
    while (first < count && rd.message_headers(messages[first], &headers))
        first++;
    if (first == count)
        Py_RETURN_NONE;
    PyObject *all = PyList_New(count);
    for (Py_ssize_t i = 0; all && i < count; i++) {
        PyObject *pairs = headers_of(messages[i]), *kept = pairs ? PyList_AsTuple(pairs) : NULL;
        Py_XDECREF(pairs);
        if (kept)
            PyList_SetItem(all, i, kept);
        else
            Py_CLEAR(all);
    }
    return all;
}

static PyObject *rows_of(Message **messages, Py_ssize_t count) {
    PyObject *offsets = PyBytes_FromStringAndSize(NULL, count * 8), *times = PyBytes_FromStringAndSize(NULL, count * 8);
    PyObject *keys = column(messages, count, 1), *values = keys ? column(messages, count, 0) : NULL;
    PyObject *headers = values ? all_headers(messages, count) : NULL;
    if (!offsets || !times || !headers) {
        Py_XDECREF(offsets);
        Py_XDECREF(times);
        Py_XDECREF(keys);
        Py_XDECREF(values);
        return NULL;
    }
    int64_t *offset = (int64_t *)PyBytes_AsString(offsets), *time = (int64_t *)PyBytes_AsString(times);
    for (Py_ssize_t i = 0; i < count; i++) {
        int kind;
        offset[i] = messages[i]->offset;
        time[i] = rd.message_timestamp(messages[i], &kind);
    }
    return Py_BuildValue("(nNNNNN)", count, offsets, keys, values, times, headers);
}

/* Adds the error of a message to a list of (code, what it says), which is made if there is none. */
static int note_error(PyObject **errors, const Message *message) {
    const char *text = message->payload ? message->payload : "";
    PyObject *said = PyUnicode_DecodeUTF8(text, message->payload ? (Py_ssize_t)message->len : 0, "replace");
    PyObject *pair = said ? Py_BuildValue("(iN)", message->err, said) : NULL;
    int noted = pair && (*errors || (*errors = PyList_New(0))) && PyList_Append(*errors, pair) == 0;
    Py_XDECREF(pair);
    return noted;
}

/* take(queue, end, most, timeout_ms) -> (offset reached, or -1; errors, or None; rows, or None)

   Waits for one record, then takes those that are there, below `end`. The end of a partition is no error, but tells how far it goes.
   Errors come between records; who calls knows which of them pass. */
static PyObject *take(PyObject *module, PyObject *given) {
    PyObject *capsule, *told = NULL;
    long long end;
    Py_ssize_t most;
    int timeout;
    if (!PyArg_ParseTuple(given, "OLni", &capsule, &end, &most, &timeout))
        return NULL;
    Queue *queue = PyCapsule_GetPointer(capsule, "penstock.queue");
    if (!queue)
        return NULL;
    if (most < 1 || most > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "at least one record is taken, and not more than there are");
        return NULL;
    }
    Message **messages = PyMem_Malloc((size_t)most * sizeof *messages);
    if (!messages)
        return PyErr_NoMemory();
    ssize_t got;
    Py_BEGIN_ALLOW_THREADS;
    got = rd.consume_batch_queue(queue->queue, timeout, messages, 1);
    if (got == 1 && most > 1) {
        ssize_t more = rd.consume_batch_queue(queue->queue, 0, messages + 1, (size_t)most - 1);
        got += more > 0 ? more : 0;
    }
    Py_END_ALLOW_THREADS;
    long long reached = -1;
    PyObject *errors = NULL;
    Py_ssize_t count = 0;
    int noted = 1;
    for (ssize_t i = 0; noted && i < got; i++) {
        Message *message = messages[i];
        if (message->err && message->err != PARTITION_EOF)
            noted = note_error(&errors, message);
        else
            reached = message->offset + !message->err;
        if (!message->err && message->offset < end) { /* those that count come first */
            messages[i] = messages[count];
            messages[count++] = message;
        }
    }
    PyObject *rows = !noted ? NULL : count ? rows_of(messages, count) : Py_NewRef(Py_None);
    if (rows)
        told = Py_BuildValue("(LNN)", reached, errors ? errors : Py_NewRef(Py_None), rows);
    else
        Py_XDECREF(errors);
    Py_BEGIN_ALLOW_THREADS;
    for (ssize_t i = 0; i < got; i++)
        rd.message_destroy(messages[i]);
    Py_END_ALLOW_THREADS;
    PyMem_Free(messages);
    return told;
}

static PyMethodDef METHODS[] = {
    {"link_to", link_to, METH_O, NULL},   {"failed", failed, METH_O, NULL},
    {"produce_row", produce_row, METH_VARARGS, NULL},
    {"open_queue", open_queue, METH_VARARGS, NULL}, {"take", take, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "penstock.native._partition_queue", NULL, -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__partition_queue(void) { return PyModule_Create(&MODULE); }
