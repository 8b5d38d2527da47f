/* Rows of Arrow's columns as Kafka's record batches (format 2), without a Python object for each row.

       batch    base offset (8)  length (4)  leader epoch (4)  magic (1)  crc (4)  attributes (2)  last offset delta (4)  first time (8)
                largest time (8)  producer id (8)  producer epoch (2)  first sequence (4)  records (4)  record...
       record   length  attributes (1)  time delta  offset delta  key  value  headers  { name  value }

   Numbers of the frame are big-endian. Lengths, deltas and counts are varints in zigzag; a length of -1 is null. The checksum (CRC-32C) is of
   everything after it.

   INVARIANT: the memory of a batch does not move and is not written while somebody looks at it (`looks`). */

#include "columns.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "written for little-endian machines: without this file rows are written by librdkafka"
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#include <nmmintrin.h>
#ifdef __clang__
#define WITH_CRC __attribute__((target("crc32")))
#else
#define WITH_CRC __attribute__((target("sse4.2")))
#endif
#endif

enum { FRAME = 61, AFTER_LENGTH = 12, AT_CRC = 17, AFTER_CRC = 21, SMALLEST = 4096, TRANSACTIONAL = 16 };

/* ---- checksums */

static CrcTable crc_table;

static uint32_t crc_by_table(uint32_t crc, const uint8_t *data, size_t size) { return crc_by(crc_table, crc, data, size); }

#if defined(__x86_64__)
WITH_CRC static uint32_t crc_by_processor(uint32_t crc, const uint8_t *data, size_t size) {
    uint64_t wide = crc, word;
    for (; size >= 8; size -= 8, data += 8) {
        memcpy(&word, data, 8);
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
    while (size--)
        crc = _mm_crc32_u8(crc, *data++);
    return crc;
}
#endif

static uint32_t (*crc_of)(uint32_t crc, const uint8_t *data, size_t size) = crc_by_table;

/* ---- numbers */

static uint8_t *put(uint8_t *to, uint64_t number, int bytes) {
    while (bytes--)
        *to++ = (uint8_t)(number >> 8 * bytes);
    return to;
}

static inline uint64_t zigzag(int64_t number) {
    return (uint64_t)number << 1 ^ (0 - (uint64_t)(number < 0));
}

static inline size_t varint_size(uint64_t number) {
    return (size_t)(63 - __builtin_clzll(number | 1)) / 7 + 1;
}

static inline uint8_t *put_varint(uint8_t *to, uint64_t number) {
    for (; number > 127; number >>= 7)
        *to++ = (uint8_t)(number | 128);
    *to++ = (uint8_t)number;
    return to;
}

/* ---- a field is bytes with their length before them, or null */

typedef struct {
    const char *data;
    size_t size;
} Field;

static inline size_t field_size(Field field) {
    return field.data ? varint_size((uint64_t)field.size << 1) + field.size : 1;
}

static inline uint8_t *put_field(uint8_t *to, Field field) {
    if (!field.data) {
        *to++ = 1; /* -1 */
        return to;
    }
    to = put_varint(to, (uint64_t)field.size << 1);
    memcpy(to, field.data, field.size);
    return to + field.size;
}

/* ---- rows, by the partition that they go to */

/* As Kafka's Java producer places a key. */
static uint32_t murmur2(const uint8_t *data, size_t size) {
    const uint32_t m = 0x5BD1E995u;
    uint32_t hash = 0x9747B28Cu ^ (uint32_t)size;
    for (; size >= 4; size -= 4, data += 4) {
        uint32_t word = (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        word *= m;
        hash = hash * m ^ (word ^ word >> 24) * m;
    }
    if (size) {
        for (size_t at = 0; at < size; at++)
            hash ^= (uint32_t)data[at] << 8 * at;
        hash *= m;
    }
    hash = (hash ^ hash >> 13) * m;
    return hash ^ hash >> 15;
}

/* Returns the rows by the partition that they go to, of so many, and in `ends` (spread + 1 of them) where those of each end; rows for a
   partition that does not exist are the last. Rows that may go anywhere take turns from `turn` on, RUN rows at a time. NULL: no memory. */
enum { RUN = 1024 };

static int32_t *by_partition(const Column *keys, const int32_t *partitions, Py_ssize_t rows, int32_t spread, int64_t turn,
                                    Py_ssize_t *ends) {
    int32_t *order = malloc((size_t)rows * 4 + 1), *goes = malloc((size_t)rows * 4 + 1);
    Py_ssize_t lone = 0;
    memset(ends, 0, ((size_t)spread + 1) * sizeof *ends);
    if (!order || !goes) {
        free(order);
        free(goes);
        return NULL;
    }
    for (Py_ssize_t row = 0; row < rows; row++) {
        size_t size;
        const char *key;
        int32_t to = partitions ? partitions[row] : -1;
        if (to >= 0 || !spread)
            to = to >= 0 && to < spread ? to : spread;
        else if ((key = bytes_of(keys, row, &size)))
            to = (int32_t)((murmur2((const uint8_t *)key, size) & 0x7FFFFFFFu) % (uint32_t)spread);
        else
            to = (int32_t)((turn + lone++ / RUN) % spread);
        goes[row] = to;
        ends[to]++;
    }
    Py_ssize_t before = 0;
    for (int32_t to = 0; to <= spread; to++) {
        Py_ssize_t count = ends[to];
        ends[to] = before;
        before += count;
    }
    for (Py_ssize_t row = 0; row < rows; row++)
        order[ends[goes[row]]++] = (int32_t)row;
    free(goes);
    return order;
}

typedef struct {
    PyObject_HEAD
    Column keys, values;
    Py_buffer times;
    PyObject *headers; /* a sequence with those of each row, or NULL */
    Py_ssize_t size;
    int32_t *order;
    int32_t spread;
    Py_ssize_t *ends;
} Rows;

static void free_object(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static void rows_free(Rows *self) {
    release_column(&self->keys);
    release_column(&self->values);
    release(&self->times);
    Py_XDECREF(self->headers);
    free(self->order);
    free(self->ends);
    free_object((PyObject *)self);
}

/* PartitionedRows(rows, partitions or None, keys, values, times, headers or None, spread, turn): `spread` is how many partitions there are. */
static PyObject *rows_new(PyTypeObject *type, PyObject *given, PyObject *named) {
    PyObject *places, *keys, *values, *times, *headers;
    Py_ssize_t rows;
    int spread;
    long long turn;
    Py_buffer partitions = {0};
    if (!PyArg_ParseTuple(given, "nOOOOOiL", &rows, &places, &keys, &values, &times, &headers, &spread, &turn))
        return NULL;
    if (rows < 0 || rows > INT32_MAX || spread < 0 || turn < 0 || turn > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a number is too large or negative");
        return NULL;
    }
    Rows *self = (Rows *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    if (!column_of(keys, &self->keys, rows) || !column_of(values, &self->values, rows) || !buffer_of(times, &self->times) ||
        !buffer_of(places, &partitions))
        goto failed;
    if (headers != Py_None && !(self->headers = PySequence_Fast(headers, "headers are a sequence")))
        goto failed;
    if (!holds(&self->times, rows, 8) || (partitions.buf && !holds(&partitions, rows, 4)) ||
        (self->headers && items_of(self->headers) < rows)) {
        PyErr_SetString(PyExc_ValueError, "a column is shorter than its rows");
        goto failed;
    }
    self->size = rows;
    self->spread = spread;
    self->ends = malloc(((size_t)spread + 1) * sizeof *self->ends);
    Py_BEGIN_ALLOW_THREADS;
    if (self->ends)
        self->order = by_partition(&self->keys, partitions.buf, rows, spread, turn, self->ends);
    Py_END_ALLOW_THREADS;
    if (!self->order) {
        PyErr_NoMemory();
        goto failed;
    }
    release(&partitions);
    return (PyObject *)self;
failed:
    release(&partitions);
    Py_DECREF(self);
    return NULL;
}

/* runs() -> [(partition, first, last)]: which places of the order are for which partition; -1: for none that exists */
static PyObject *rows_runs(Rows *self, PyObject *nothing) {
    PyObject *runs = PyList_New(0);
    Py_ssize_t first = 0;
    for (int32_t to = 0; runs && to <= self->spread; first = self->ends[to++]) {
        if (first == self->ends[to])
            continue;
        PyObject *run = Py_BuildValue("(inn)", to < self->spread ? (int)to : -1, first, self->ends[to]);
        if (!run || PyList_Append(runs, run))
            Py_CLEAR(runs);
        Py_XDECREF(run);
    }
    return runs;
}

/* row(at) -> the number of the row at a place of the order */
static PyObject *rows_row(Rows *self, PyObject *given) {
    Py_ssize_t at = PyNumber_AsSsize_t(given, PyExc_IndexError);
    if (at == -1 && PyErr_Occurred())
        return NULL;
    if (at < 0 || at >= self->size) {
        PyErr_SetString(PyExc_IndexError, "there is no such row");
        return NULL;
    }
    return PyLong_FromLong(self->order[at]);
}

static PyMethodDef ROWS_METHODS[] = {
    {"runs", (PyCFunction)rows_runs, METH_NOARGS, NULL}, {"row", (PyCFunction)rows_row, METH_O, NULL}, {NULL, NULL, 0, NULL}};

static PyType_Slot ROWS_SLOTS[] = {{Py_tp_new, rows_new}, {Py_tp_dealloc, rows_free}, {Py_tp_methods, ROWS_METHODS}, {0, NULL}};
static PyType_Spec ROWS = {"penstock.native._record_batches.PartitionedRows", sizeof(Rows), 0, Py_TPFLAGS_DEFAULT, ROWS_SLOTS};

/* ---- headers: objects of Python, read while nobody else runs */

/* `bytes`: the name, or NULL: it is the text of the pair. Each call of Python counts here. */
static int header_of(PyObject *pair, PyObject *bytes, Field *name, Field *value) {
    Py_ssize_t size;
    if (!is_tuple(pair) || PyTuple_Size(pair) != 2)
        goto wrong;
    PyObject *text = PyTuple_GetItem(pair, 0), *data = PyTuple_GetItem(pair, 1);
    if (!Py_IS_TYPE(text, &PyUnicode_Type) && !PyUnicode_Check(text))
        goto wrong;
    if (bytes) {
        name->data = PyBytes_AsString(bytes);
        size = PyBytes_Size(bytes);
    } else if (!(name->data = PyUnicode_AsUTF8AndSize(text, &size)))
        return 0;
    name->size = (size_t)size;
    value->data = NULL;
    value->size = 0;
    if (Py_IS_TYPE(data, &PyBytes_Type) || PyBytes_Check(data)) {
        value->data = PyBytes_AsString(data);
        value->size = (size_t)PyBytes_Size(data);
    } else if (data != Py_None)
        goto wrong;
    return 1;
wrong:
    PyErr_SetString(PyExc_TypeError, "a header is a pair of a name and bytes or None");
    return 0;
}

/* Names as bytes, where one of them is not UTF-8: `record.py` says how a text keeps them. */
static PyObject *raw_names(PyObject *given) {
    Py_ssize_t count = items_of(given);
    PyObject *names = PyList_New(count);
    for (Py_ssize_t i = 0; names && i < count; i++) {
        PyObject *pair = item_of(given, i), *name = NULL;
        if (is_tuple(pair) && PyTuple_Size(pair) == 2)
            name = PyUnicode_AsEncodedString(PyTuple_GetItem(pair, 0), "utf-8", "surrogateescape");
        else
            PyErr_SetString(PyExc_TypeError, "a header is a pair of a name and bytes or None");
        if (name)
            PyList_SetItem(names, i, name);
        else
            Py_CLEAR(names);
    }
    return names;
}

/* Tells whether so many bytes more have room behind `size`. */
static int have_room(uint8_t **memory, size_t *room, size_t size, size_t more) {
    if (size + more <= *room)
        return 1;
    uint8_t *larger = realloc(*memory, (size + more) * 2);
    if (!larger) {
        PyErr_NoMemory();
        return 0;
    }
    *memory = larger;
    *room = (size + more) * 2;
    return 1;
}

/* `names`: as bytes, or NULL: they are UTF-8. */
static size_t encode_named(PyObject *given, PyObject *names, uint8_t **memory, size_t *room) {
    Py_ssize_t count = items_of(given);
    size_t size = varint_size((uint64_t)count << 1);
    Field name, value;
    if (!have_room(memory, room, 0, size))
        return 0;
    put_varint(*memory, (uint64_t)count << 1);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!header_of(item_of(given, i), names ? PyList_GetItem(names, i) : NULL, &name, &value))
            return 0;
        size_t more = field_size(name) + field_size(value);
        if (!have_room(memory, room, size, more))
            return 0;
        put_field(put_field(*memory + size, name), value);
        size += more;
    }
    return size;
}

/* The headers of a row as they are written, in memory that is used again. Their size; 0: an error is set. */
static size_t encode_headers(PyObject *given, uint8_t **memory, size_t *room) {
    if (!is_tuple(given) && !PyList_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "the headers of a row are a tuple or a list");
        return 0;
    }
    size_t size = encode_named(given, NULL, memory, room);
    if (size || !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
        return size;
    PyErr_Clear();
    PyObject *names = raw_names(given);
    size = names ? encode_named(given, names, memory, room) : 0;
    Py_XDECREF(names);
    return size;
}

/* ---- batches */

typedef struct {
    PyObject_HEAD
    uint8_t *data;
    size_t size, room;
    int64_t first_time, largest_time;
    int32_t count;
    int is_written; /* while others may run */
    Py_ssize_t looks;
} Batch;

static PyObject *batch_new(PyTypeObject *type, PyObject *given, PyObject *named) {
    Batch *self = (Batch *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    self->room = SMALLEST;
    self->size = FRAME;
    if (!(self->data = calloc(1, SMALLEST))) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static void batch_free(Batch *self) {
    free(self->data);
    free_object((PyObject *)self);
}

static int is_free(const Batch *self) {
    int free = !self->looks && !self->is_written;
    if (!free)
        PyErr_SetString(PyExc_BufferError, "somebody looks at this batch, or writes it");
    return free;
}

static int make_room(Batch *self, size_t size) {
    if (size <= self->room)
        return 1;
    size_t room = self->room;
    while (room < size)
        room *= 2;
    uint8_t *larger = realloc(self->data, room);
    if (!larger)
        return 0;
    self->data = larger;
    self->room = room;
    return 1;
}

typedef enum { ADDED, FULL, NO_MEMORY } Outcome;

/* Writes one record. `headers` are written already; they follow the value. */
static inline Outcome add_record(Batch *self, Field key, Field value, int64_t time, Field headers, size_t limit, size_t largest) {
    time = time ? time : 1; /* as everywhere in this room */
    uint64_t later = zigzag(self->count ? (int64_t)((uint64_t)time - (uint64_t)self->first_time) : 0);
    uint64_t place = (uint64_t)(uint32_t)self->count << 1;
    size_t size = 1 + varint_size(later) + varint_size(place) + field_size(key) + field_size(value) + headers.size;
    size_t whole = self->size + varint_size((uint64_t)size << 1) + size;
    if (whole > (self->count ? limit : largest) || self->count == INT32_MAX)
        return FULL;
    if (!make_room(self, whole))
        return NO_MEMORY;
    uint8_t *to = put_varint(self->data + self->size, (uint64_t)size << 1);
    *to++ = 0;
    to = put_field(put_field(put_varint(put_varint(to, later), place), key), value);
    memcpy(to, headers.data, headers.size);
    self->size = whole;
    self->first_time = self->count ? self->first_time : time;
    self->largest_time = self->count && self->largest_time > time ? self->largest_time : time;
    self->count++;
    return ADDED;
}

/* add(rows, first, last, limit, largest) -> next: writes rows at places of their order until the batch is full.

   The batch does not grow beyond `limit` bytes; a row alone may, up to `largest`. If not even one row was written to an empty batch it is
   too large. */
static PyObject *batch_add(Batch *self, PyObject *given) {
    Rows *rows;
    Py_ssize_t first, last, limit, largest;
    PyObject *type = PyType_GetModuleState(Py_TYPE((PyObject *)self));
    if (!PyArg_ParseTuple(given, "O!nnnn", *(PyTypeObject **)type, &rows, &first, &last, &limit, &largest) || !is_free(self))
        return NULL;
    if (first < 0 || last < first || last > rows->size || limit < 0 || largest < 0 || limit > INT32_MAX || largest > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "there are no such rows, or no batches of that size");
        return NULL;
    }
    const int64_t *times = rows->times.buf;
    uint8_t *memory = NULL;
    size_t room = 0;
    Outcome outcome = ADDED;
    PyThreadState *resting = NULL;
    Field headers = {"", 1}; /* none: a count of 0 */
    if (!rows->headers) {
        self->is_written = 1;
        resting = PyEval_SaveThread();
    }
    while (first < last) {
        Py_ssize_t row = rows->order[first];
        Field key, value;
        key.data = bytes_of(&rows->keys, row, &key.size);
        value.data = bytes_of(&rows->values, row, &value.size);
        if (rows->headers) {
            if (row >= items_of(rows->headers)) {
                PyErr_SetString(PyExc_ValueError, "a column is shorter than its rows");
                break;
            }
            headers.size = encode_headers(item_of(rows->headers, row), &memory, &room);
            headers.data = (const char *)memory;
            if (!headers.size)
                break;
        }
        outcome = add_record(self, key, value, times[row], headers, (size_t)limit, (size_t)largest);
        if (outcome != ADDED)
            break;
        first++;
    }
    if (resting) {
        PyEval_RestoreThread(resting);
        self->is_written = 0;
    }
    free(memory);
    if (outcome == NO_MEMORY)
        return PyErr_NoMemory();
    return PyErr_Occurred() ? NULL : PyLong_FromSsize_t(first);
}

/* replace(records): the same records in another form, compressed */
static PyObject *batch_replace(Batch *self, PyObject *given) {
    Py_buffer records;
    if (PyObject_GetBuffer(given, &records, PyBUF_SIMPLE))
        return NULL;
    PyObject *told = NULL;
    if (!is_free(self)) /* asked when the records are held: they may be this batch */
        ;
    else if (records.len > INT32_MAX - FRAME)
        PyErr_SetString(PyExc_ValueError, "a batch cannot be that large");
    else if (!make_room(self, FRAME + (size_t)records.len))
        PyErr_NoMemory();
    else {
        memcpy(self->data + FRAME, records.buf, (size_t)records.len);
        self->size = FRAME + (size_t)records.len;
        told = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&records);
    return told;
}

/* seal(producer id, producer epoch, first sequence, transactional, codec): writes the frame */
static PyObject *batch_seal(Batch *self, PyObject *given) {
    long long id;
    int epoch, sequence, transactional, codec;
    if (!PyArg_ParseTuple(given, "Liipi", &id, &epoch, &sequence, &transactional, &codec) || !is_free(self))
        return NULL;
    if (self->count == 0 || codec < 0 || codec > 4) {
        PyErr_SetString(PyExc_ValueError, "a batch without rows, or compressed in a way that does not exist");
        return NULL;
    }
    uint8_t *to = put(self->data, 0, 8);
    to = put(to, self->size - AFTER_LENGTH, 4);
    to = put(to, 0xFFFFFFFFu, 4);
    to = put(to, 2, 1) + 4;
    to = put(to, (uint64_t)codec | (transactional ? TRANSACTIONAL : 0), 2);
    to = put(to, (uint64_t)self->count - 1, 4);
    to = put(to, (uint64_t)self->first_time, 8);
    to = put(to, (uint64_t)self->largest_time, 8);
    to = put(to, (uint64_t)id, 8);
    to = put(to, (uint64_t)(int64_t)epoch, 2);
    to = put(to, (uint64_t)(int64_t)sequence, 4);
    put(to, (uint64_t)self->count, 4);
    uint32_t crc;
    self->is_written = 1;
    Py_BEGIN_ALLOW_THREADS;
    crc = crc_of(0xFFFFFFFFu, self->data + AFTER_CRC, self->size - AFTER_CRC) ^ 0xFFFFFFFFu;
    Py_END_ALLOW_THREADS;
    self->is_written = 0;
    put(self->data + AT_CRC, crc, 4);
    Py_RETURN_NONE;
}

/* clear(): empty, to be used again with the memory that it has */
static PyObject *batch_clear(Batch *self, PyObject *nothing) {
    if (!is_free(self))
        return NULL;
    self->size = FRAME;
    self->count = 0;
    Py_RETURN_NONE;
}

static PyObject *batch_count(Batch *self, void *nothing) {
    return PyLong_FromLong(self->count);
}

static Py_ssize_t batch_size(Batch *self) {
    return (Py_ssize_t)self->size;
}

static int batch_look(Batch *self, Py_buffer *view, int flags) {
    if (self->is_written) {
        PyErr_SetString(PyExc_BufferError, "somebody writes this batch");
        view->obj = NULL;
        return -1;
    }
    if (PyBuffer_FillInfo(view, (PyObject *)self, self->data, (Py_ssize_t)self->size, 1, flags))
        return -1;
    self->looks++;
    return 0;
}

static void batch_look_away(Batch *self, Py_buffer *view) {
    self->looks--;
}

static PyMethodDef BATCH_METHODS[] = {{"add", (PyCFunction)batch_add, METH_VARARGS, NULL},
                                      {"replace", (PyCFunction)batch_replace, METH_O, NULL},
                                      {"seal", (PyCFunction)batch_seal, METH_VARARGS, NULL},
                                      {"clear", (PyCFunction)batch_clear, METH_NOARGS, NULL},
                                      {NULL, NULL, 0, NULL}};
static PyGetSetDef BATCH_FIELDS[] = {{"count", (getter)batch_count, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot BATCH_SLOTS[] = {{Py_tp_new, batch_new},          {Py_tp_dealloc, batch_free},
                                    {Py_tp_methods, BATCH_METHODS},  {Py_tp_getset, BATCH_FIELDS},
                                    {Py_sq_length, batch_size},      {Py_bf_getbuffer, batch_look},
                                    {Py_bf_releasebuffer, batch_look_away}, {0, NULL}};
static PyType_Spec BATCH = {"penstock.native._record_batches.RecordBatch", sizeof(Batch), 0, Py_TPFLAGS_DEFAULT, BATCH_SLOTS};

/* ---- the module */

/* crc32c(bytes, by_table) -> its checksum */
static PyObject *crc32c(PyObject *module, PyObject *given) {
    Py_buffer data;
    int by_table;
    if (!PyArg_ParseTuple(given, "y*p", &data, &by_table))
        return NULL;
    uint32_t crc = (by_table ? crc_by_table : crc_of)(0xFFFFFFFFu, data.buf, (size_t)data.len) ^ 0xFFFFFFFFu;
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(crc);
}

static PyMethodDef METHODS[] = {{"crc32c", crc32c, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "penstock.native._record_batches", NULL, sizeof(PyTypeObject *), METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__record_batches(void) {
    make_crc_table(crc_table, 0x82F63B78u);
#if defined(__x86_64__)
    unsigned a, b, c, d; /* the processor is asked itself: not every compiler brings what asks it */
    if (__get_cpuid(1, &a, &b, &c, &d) && c & bit_SSE4_2)
        crc_of = crc_by_processor;
#endif
    PyObject *module = PyModule_Create(&MODULE);
    if (!module)
        return NULL;
    PyObject *rows = PyType_FromModuleAndSpec(module, &ROWS, NULL), *batch = PyType_FromModuleAndSpec(module, &BATCH, NULL);
    if (rows)
        *(PyTypeObject **)PyModule_GetState(module) = (PyTypeObject *)rows; /* kept by the module's own reference */
    if (!rows || !batch || PyModule_AddObjectRef(module, "PartitionedRows", rows) || PyModule_AddObjectRef(module, "RecordBatch", batch))
        Py_CLEAR(module);
    Py_XDECREF(batch);
    return module;
}
