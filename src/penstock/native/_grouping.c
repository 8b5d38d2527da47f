/* The records of a batch by key, keys in their order as unsigned bytes: a sort of words, without a Python object for each key; and the shard of each.

   Records begin as one segment. Of a segment, what all its keys begin with is left out; the seven bytes behind it, and how many of them
   there are, are a word, and the segment is sorted by these numbers: a radix sort by those of their bytes that differ somewhere. Records
   with equal words have equal keys if these end there, else they are a segment of their own, of which these seven bytes are left out.

   INVARIANT: each sort leaves records with equal words in the order that they had: those of one key stay in the order of their places.
   INVARIANT: to cut a segment takes so many steps for each record at most, and leaves out seven bytes of its key at least: the work grows
   as the bytes of the keys do, whatever they are. There is no hash that somebody could choose keys for. */

#include "columns.h"

/* bytes of a key in a word; so few records are sorted by moving them one by one; so far is looked for what keys have in common */
enum { BYTES = 7, FEW = 24, FAR = 256 };

/* ---- keys, as Arrow has them */

typedef struct {
    const char *offsets; /* int32, that of the first row; it may lie anywhere */
    const uint8_t *data;
    size_t size;
} Keys;

static size_t offset_of(const Keys *keys, size_t row) {
    int32_t offset;
    memcpy(&offset, keys->offsets + row * sizeof offset, sizeof offset);
    return (size_t)offset;
}

static size_t size_of(const Keys *keys, size_t row) { return offset_of(keys, row + 1) - offset_of(keys, row); }

static int are_sound(const Keys *keys, size_t rows) {
    int32_t before = 0, offset;
    for (size_t row = 0; row <= rows; row++, before = offset) {
        memcpy(&offset, keys->offsets + row * sizeof offset, sizeof offset);
        if (offset < before)
            return 0;
    }
    return (size_t)before <= keys->size;
}

/* Returns seven bytes of a key behind those that are left out, and 0 to 7: so many there are, or 8: there are more. Numbers are in the
   order of the keys: what is not there is zero, and of two that are equal up to there the shorter one comes first. */
static uint64_t word_of(const Keys *keys, size_t row, size_t left_out) {
    size_t at = offset_of(keys, row) + left_out, rest = offset_of(keys, row + 1) - at;
    uint8_t last[8] = {0};
    const uint8_t *from = keys->data + at;
    if (keys->size - at < 8) /* so rest is less, too */
        from = memcpy(last, from, rest);
    uint64_t word = (uint64_t)from[0] << 56 | (uint64_t)from[1] << 48 | (uint64_t)from[2] << 40 | (uint64_t)from[3] << 32 |
                    (uint64_t)from[4] << 24 | (uint64_t)from[5] << 16 | (uint64_t)from[6] << 8;
    return rest > BYTES ? word | 8 : (word & ~(UINT64_MAX >> 8 * rest)) | rest;
}

/* ---- sorting */

typedef struct {
    uint64_t word;
    uint32_t row;
} Item;

/* Returns how many bytes all keys begin with, of which `known` are known, and not too many more. */
static size_t in_common(const Keys *keys, const Item *items, size_t count, size_t known) {
    const uint8_t *first = keys->data + offset_of(keys, items[0].row);
    size_t same = size_of(keys, items[0].row);
    if (same > known + FAR)
        same = known + FAR;
    for (size_t i = 1; i < count && same > known; i++) {
        const uint8_t *other = keys->data + offset_of(keys, items[i].row);
        size_t size = size_of(keys, items[i].row);
        if (size < same)
            same = size;
        if (memcmp(first + known, other + known, same - known))
            for (same = known; first[same] == other[same];)
                same++;
    }
    return same;
}

static void sort_few(Item *items, size_t count) {
    for (size_t i = 1; i < count; i++) {
        Item item = items[i];
        size_t at = i;
        for (; at && items[at - 1].word > item.word; at--)
            items[at] = items[at - 1];
        items[at] = item;
    }
}

/* Sorts by one byte of the words. */
static void sort_by(const Item *items, Item *to, size_t count, int shift) {
    uint32_t at[256] = {0}, sum = 0;
    for (size_t i = 0; i < count; i++)
        at[items[i].word >> shift & 255]++;
    for (int byte = 0; byte < 256; byte++) {
        uint32_t here = at[byte];
        at[byte] = sum;
        sum += here;
    }
    for (size_t i = 0; i < count; i++)
        to[at[items[i].word >> shift & 255]++] = items[i];
}

/* Sorts by words, which differ in the bits of the mask. */
static void sort(Item *items, Item *spare, size_t count, uint64_t mask) {
    if (count <= FEW) {
        sort_few(items, count);
        return;
    }
    Item *from = items, *to = spare;
    for (int shift = 0; shift < 64; shift += 8)
        if (mask >> shift & 255) {
            sort_by(from, to, count, shift);
            Item *next = from;
            from = to;
            to = next;
        }
    if (from != items)
        memcpy(items, from, count * sizeof *items);
}

/* ---- groups */

typedef struct {
    uint32_t begin, count, left_out;
} Segment;

typedef struct {
    Keys keys;
    const char *parts; /* int64, or NULL */
    size_t rows, groups, bytes;
    Item *items, *spare;
    uint8_t *begins;   /* whether a group begins at an item */
    Segment *segments; /* yet to be cut: they have no record in common, and two at least */
    size_t waiting;
} Work;

static int64_t part_of(const Work *work, size_t row) {
    int64_t part;
    memcpy(&part, work->parts + row * sizeof part, sizeof part);
    return part;
}

/* Notes where words begin in a segment that is sorted, and which of them are segments themselves: keys that go on behind what is left
   out. If that is nothing, these are words of parts. */
static void cut(Work *work, Segment segment, size_t left_out) {
    const Item *items = work->items;
    for (size_t at = segment.begin, end = at + segment.count, next; at < end; at = next) {
        for (next = at + 1; next < end && items[next].word == items[at].word;)
            next++;
        work->begins[at] = 1;
        if (next > at + 1 && (!left_out || (items[at].word & 255) > BYTES))
            work->segments[work->waiting++] = (Segment){(uint32_t)at, (uint32_t)(next - at), (uint32_t)left_out};
    }
}

static void cut_by_part(Work *work) {
    Item *items = work->items;
    uint64_t mask = 0;
    for (size_t i = 0; i < work->rows; i++) {
        items[i].word = (uint64_t)part_of(work, i) ^ UINT64_C(1) << 63; /* negative ones first */
        mask |= items[i].word ^ items[0].word;
    }
    sort(items, work->spare, work->rows, mask);
    cut(work, (Segment){0, (uint32_t)work->rows, 0}, 0);
}

static void cut_by_key(Work *work, Segment segment) {
    Item *items = work->items + segment.begin;
    size_t left_out = in_common(&work->keys, items, segment.count, segment.left_out);
    uint64_t mask = 0;
    for (size_t i = 0; i < segment.count; i++) {
        items[i].word = word_of(&work->keys, items[i].row, left_out);
        mask |= items[i].word ^ items[0].word;
    }
    sort(items, work->spare, segment.count, mask);
    cut(work, segment, left_out + BYTES);
}

static void group_rows(Work *work) {
    for (size_t row = 0; row < work->rows; row++)
        work->items[row].row = (uint32_t)row;
    if (work->parts)
        cut_by_part(work);
    else if (work->rows)
        cut_by_key(work, (Segment){0, (uint32_t)work->rows, 0});
    while (work->waiting)
        cut_by_key(work, work->segments[--work->waiting]);
    for (size_t i = 0; i < work->rows; i++)
        if (work->begins[i]) {
            work->groups++;
            work->bytes += size_of(&work->keys, work->items[i].row);
        }
}

typedef struct {
    int64_t *order, *edges, *last, *parts;
    int32_t *offsets;
    uint8_t *data;
} Told;

/* Returns 0 if the keys are not those any more that were grouped: somebody writes to their memory. */
static int tell(const Work *work, Told told) {
    size_t group = 0, bytes = 0;
    for (size_t i = 0; i < work->rows; i++) {
        size_t row = work->items[i].row;
        told.order[i] = (int64_t)row;
        if (work->begins[i]) {
            size_t size = size_of(&work->keys, row), at = offset_of(&work->keys, row);
            if (size > work->bytes - bytes || at > work->keys.size || size > work->keys.size - at)
                return 0;
            told.edges[group] = (int64_t)i;
            told.offsets[group] = (int32_t)bytes;
            memcpy(told.data + bytes, work->keys.data + at, size);
            bytes += size;
            if (work->parts)
                told.parts[group] = part_of(work, row);
            group++;
        }
        told.last[group - 1] = (int64_t)row;
    }
    told.edges[group] = (int64_t)work->rows;
    told.offsets[group] = (int32_t)bytes;
    return 1;
}

/* ---- what Python calls */

/* The room of one call is kept for the next one, up to a size: the system takes longer to hand it out page by page than a sort takes.
   INVARIANT: only who has the lock of the interpreter takes it or puts it back. */
enum { KEPT = 8 << 20 };

typedef struct {
    void *at;
    size_t size;
} Room;

static Room kept;

static Room take_room(size_t size) {
    Room room = kept;
    kept = (Room){0};
    if (room.size < size) {
        free(room.at);
        room = (Room){malloc(size), size};
    }
    return room;
}

static void keep_room(Room room) {
    if (kept.at || room.size > KEPT)
        free(room.at);
    else
        kept = room;
}

static PyObject *grouped(Work *work) {
    PyObject *told = NULL, *made[6] = {NULL};
    void *to[6];
    const size_t rows = work->rows, most = rows / 2 + 1;
    Room room = take_room(rows * (2 * sizeof(Item) + 1) + most * sizeof(Segment));
    if (!room.at)
        return PyErr_NoMemory();
    work->items = room.at;
    work->spare = work->items + rows;
    work->segments = (Segment *)(work->spare + rows);
    work->begins = memset(work->segments + most, 0, rows);
    Py_BEGIN_ALLOW_THREADS;
    group_rows(work);
    Py_END_ALLOW_THREADS;
    const size_t groups = work->groups;
    const size_t sizes[6] = {rows * 8, (groups + 1) * 8, groups * 8, work->parts ? groups * 8 : 0, (groups + 1) * 4, work->bytes};
    for (int i = 0; i < 6; i++) {
        /* where each key comes once, the last place of each is its only one */
        made[i] = i == 2 && groups == rows ? Py_NewRef(made[0]) : PyBytes_FromStringAndSize(NULL, (Py_ssize_t)sizes[i]);
        if (!made[i])
            goto done;
        to[i] = PyBytes_AsString(made[i]);
    }
    int are_same;
    Py_BEGIN_ALLOW_THREADS;
    are_same = tell(work, (Told){to[0], to[1], to[2], to[3], to[4], to[5]});
    Py_END_ALLOW_THREADS;
    if (are_same)
        told = PyTuple_Pack(6, made[0], made[1], made[2], made[3], made[4], made[5]);
    else
        PyErr_SetString(PyExc_ValueError, "a column has changed meanwhile");
done:
    for (int i = 0; i < 6; i++)
        Py_XDECREF(made[i]);
    keep_room(room);
    return told;
}

typedef struct {
    Py_buffer offsets, data, parts;
} Given;

/* Takes (rows, offsets, data or None, first row, parts or None), and checks that all rows are there. */
static int work_of(PyObject *args, Given *given, Work *work) {
    static const char NO_OFFSETS[4];
    PyObject *offsets, *data, *parts;
    Py_ssize_t rows, first;
    if (!PyArg_ParseTuple(args, "nOOnO", &rows, &offsets, &data, &first, &parts))
        return 0;
    if (!buffer_of(offsets, &given->offsets) || !buffer_of(data, &given->data) || !buffer_of(parts, &given->parts))
        return 0;
    if (rows > INT32_MAX) {
        PyErr_Format(PyExc_OverflowError, "%zd rows are too many for one batch", rows);
        return 0;
    }
    work->rows = (size_t)rows;
    work->keys.data = given->data.buf ? given->data.buf : (const uint8_t *)"";
    work->keys.size = given->data.buf ? (size_t)given->data.len : 0;
    work->parts = given->parts.buf;
    int all = rows >= 0 && first >= 0 && (!work->parts || given->parts.len / 8 >= rows);
    if (rows == 0)
        work->keys.offsets = NO_OFFSETS; /* Arrow may have none */
    else if (all && (all = first < given->offsets.len / 4 - rows)) {
        work->keys.offsets = (const char *)given->offsets.buf + first * 4;
        all = are_sound(&work->keys, work->rows);
    }
    if (!all)
        PyErr_SetString(PyExc_ValueError, "a column is shorter than its rows");
    return all;
}

/* group(rows, offsets, data, first, parts) -> (order, edges, last, parts, offsets, data), numbers of 8 bytes but for the offsets: the
   places of the records group by group; where groups begin, and the last one ends; the last place of each, its part, and its key. */
static PyObject *group(PyObject *module, PyObject *args) {
    Given given = {0};
    Work work = {0};
    PyObject *told = work_of(args, &given, &work) ? grouped(&work) : NULL;
    release(&given.offsets);
    release(&given.data);
    release(&given.parts);
    return told;
}

/* ---- shards */

static CrcTable crc_table;

/* shards(rows, keys, shards, home) -> int32 of each row: crc32 of its key modulo the shards; home without a key */
static PyObject *shards(PyObject *module, PyObject *given) {
    PyObject *key_column, *told = NULL;
    Py_ssize_t rows;
    int count, home;
    Column keys = {0};
    if (!PyArg_ParseTuple(given, "nOii", &rows, &key_column, &count, &home))
        return NULL;
    if (count < 1) {
        PyErr_SetString(PyExc_ValueError, "there must be at least one shard");
        return NULL;
    }
    if (column_of(key_column, &keys, rows) && (told = PyBytes_FromStringAndSize(NULL, rows * 4))) {
        int32_t *to = (int32_t *)PyBytes_AsString(told);
        for (Py_ssize_t row = 0; row < rows; row++) {
            size_t size;
            const char *key = bytes_of(&keys, row, &size);
            to[row] = key ? (int32_t)((crc_by(crc_table, 0xFFFFFFFFu, (const uint8_t *)key, size) ^ 0xFFFFFFFFu) % (uint32_t)count) : home;
        }
    }
    release_column(&keys);
    return told;
}

static PyMethodDef METHODS[] = {{"group", group, METH_VARARGS, NULL}, {"shards", shards, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "penstock.native._grouping", NULL, -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__grouping(void) {
    make_crc_table(crc_table, 0xEDB88320u);
    return PyModule_Create(&MODULE);
}
