/* The kernel: numpy's passes of signing and of filters, as loops. Equal to them to the bit.
 * numpy is the definition: each function names the Python function that it equals. Columns come
 * from Python with their sizes; nothing is allocated. A size, offset or code point that cannot be
 * right makes a function return BAD: numpy does the work. A chunk is a buffer of texts, with a
 * separator before, between and after them. Text t begins at bounds[t] (bounds[0] is 1), and its
 * separator stands at bounds[t + 1] - 1. */
#include <stdint.h>
#include <string.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the kernel is for little-endian machines"
#endif

typedef uint8_t u8; typedef uint32_t u32; typedef uint64_t u64; typedef int64_t i64; /* sizes */
#define EXPORT __attribute__((visibility("default")))
enum { BAD = -1, UNKNOWN_PAGE = -2, LETTER = 1, UNSPACED = 2, MARK = 3 }; /* code_points.py */
/* Values of `text/folding.py`: a code point, or an instruction from SPECIAL on. */
enum { SPECIAL = 0x110000, NOTHING = SPECIAL, CONTEXT, UNKNOWN };
enum { MARKED = 1 << 21, SEVERAL = 1 << 22, SPACE = 32, WORD = 8, VECTOR_BYTES = 32, BLOCK = 4 };
enum { ROUNDS = 15, ROUND_SHIFT = 28, VALUE_BITS = 25, REPEATING = 4096, AT_ONCE = 512 };
#define EMPTY 0xFFFFFFFFu

/* Return whether n parts that begin at starts[0] = first, rising by least or more, end at end. */
static int rising(const i64 *starts, i64 n, i64 first, i64 least, i64 end)
{
    if (n < 0 || starts[0] != first || starts[n] != end) return 0;
    for (i64 i = 0; i < n; i++)
        if (starts[i] < 0 || starts[i + 1] > end || starts[i + 1] < starts[i] + least) return 0;
    return 1;
}

/* Write a span as the one after k; return how many there are, k again if it is not wanted. */
static inline i64 span(i64 *starts, i64 *sizes, i64 k, i64 begin, i64 end, int wanted)
{
    starts[k] = begin, sizes[k] = end - begin;
    return k + wanted;
}

/* normalisation.py, `Normaliser._ascii`, and shingles.py, `_ascii_words`: map each byte, make runs
 * of spaces one if collapse, and none at an end of a text. The words' spans are at most n / 2 + 1,
 * and one is written too much. Return the bytes without the WORD spare ones. */
EXPORT i64 sf_ascii(const u8 *in, i64 n, const i64 *bounds, i64 texts, const u8 *map,
                    const u8 *classes, i64 collapse, u8 *out, i64 *out_bounds, i64 *starts,
                    i64 *sizes, i64 *text_starts)
{
    i64 o = 0, k = 0;
    if (!rising(bounds, texts, 1, 1, n)) return BAD;
    out[o++] = 0;
    for (i64 t = 0; t < texts; t++) {
        u8 was = 0;
        i64 word = 0, space = 1; /* what stands last is a space, or nothing yet */
        out_bounds[t] = o, text_starts[t] = k;
        for (i64 i = bounds[t]; i < bounds[t + 1] - 1; i++) { /* no branches: words are short */
            u8 c = map[in[i]], class = classes[c];
            int blank = c == SPACE;
            out[o] = c;
            k = span(starts, sizes, k, word, o, was & !class);
            word = class != was ? o : word;
            o += !(collapse & blank & space);
            space = blank, was = class;
        }
        if (collapse && space && o > out_bounds[t]) o--;
        k = span(starts, sizes, k, word, o, was);
        out[o++] = 0;
    }
    out_bounds[texts] = o, text_starts[texts] = k;
    memset(out + o, 0, WORD);
    return o;
}

/* folding.py, `Folding.values`, what drops the invisible, and `needs_context`: write the value of
 * each point, and the points themselves, but for those that are NOTHING. places become those that
 * Python must normalise together with their neighbours. Return how many these are. */
EXPORT i64 sf_fold(const u32 *points, i64 n, const i64 *bounds, i64 texts, const u32 *table,
                   u32 *values, u32 *kept, i64 *out_bounds, i64 *places)
{
    i64 o = 0, count = 0;
    if (!rising(bounds, texts, 1, 1, n)) return BAD;
    for (i64 t = 0, i = 0; t <= texts; t++) {
        u32 marked = 0;
        for (i64 end = bounds[t] - 1; i < end; i++) {
            u32 point = points[i], value;
            if (point >= SPECIAL) return BAD;
            kept[o] = point, values[o] = value = table[point];
            if (value >= SPECIAL) {
                if (value == UNKNOWN) return UNKNOWN_PAGE;
                if (value == NOTHING) continue;
                if (value == CONTEXT || (marked && value & MARKED)) places[count++] = o;
            }
            marked = value & MARKED, o++;
        }
        values[o] = kept[o] = points[i++]; /* the separator */
        out_bounds[t] = ++o;
    }
    return count;
}

static inline i64 utf8(u8 *out, u32 point) /* lone surrogates too, as "surrogatepass" writes them */
{
    i64 more = (point > 0x7F) + (point > 0x7FF) + (point > 0xFFFF);
    static const u8 lead[4] = {0, 0xC0, 0xE0, 0xF0};
    out[0] = (u8)(lead[more] | point >> 6 * more);
    for (i64 i = 1; i <= more; i++) out[i] = (u8)(0x80 | (point >> 6 * (more - i) & 63));
    return more + 1;
}

/* The code points that a value from SPECIAL on stands for; returns how many, or BAD. */
static inline i64 unfolded(const u32 *several, const i64 *lengths, i64 rows, i64 width, u32 value,
                           u32 *own, const u32 **points)
{
    i64 row = value & ~SEVERAL;
    *own = value & (MARKED - 1), *points = own;
    if (!(value & SEVERAL)) return value & MARKED && *own < SPECIAL ? 1 : BAD;
    if (row >= rows || lengths[row] < 0 || lengths[row] > width) return BAD;
    *points = several + row * width;
    return lengths[row];
}

/* The rest of `Normaliser._unicode`: `Folding.unfolding`, `_collapsed`, `_unwrapped`, `_utf8_of`
 * and `_words`. out has 4 bytes for each value and 4 * width for one from SPECIAL on. Spans as in
 * sf_ascii; in scripts without spaces each character with the next is one, or one alone. */
EXPORT i64 sf_encode(const u32 *values, i64 n, const i64 *bounds, i64 texts, const u32 *several,
                     const i64 *lengths, i64 rows, i64 width, const u8 *classes, i64 collapse,
                     u8 *out, i64 *out_bounds, i64 *starts, i64 *sizes, i64 *text_starts)
{
    i64 o = 0, k = 0;
    if (!rising(bounds, texts, 1, 1, n)) return BAD;
    out[o++] = 0;
    for (i64 t = 0; t < texts; t++) {
        u8 was = 0;              /* the class of what stands last; a mark has that before it */
        int space = 1, held = 0; /* it is a space; one is held back, behind an unspaced script */
        int pairs = 0;           /* the last unspaced character, unit, is in a pair */
        i64 word = 0, unit = 0, behind = 0;
        out_bounds[t] = o, text_starts[t] = k;
        for (i64 i = bounds[t]; i < bounds[t + 1] - 1; i++) {
            u32 own = values[i];
            const u32 *points = &own;
            i64 count = 1;
            if (own < 0x800 && was != UNSPACED) { /* without branches: words are short */
                u8 class = classes[own];
                int two = own > 0x7F, blank = own == SPACE;
                class = class == MARK ? was : class;
                out[o] = (u8)(two ? 0xC0 | own >> 6 : own);
                out[o + two] = (u8)(two ? 0x80 | (own & 63) : own);
                k = span(starts, sizes, k, word, o, was & !class);
                word = class != was ? o : word;
                o += collapse & blank & space ? 0 : 1 + two;
                space = blank, was = class;
                continue;
            }
            if (own >= SPECIAL) count = unfolded(several, lengths, rows, width, own, &own, &points);
            if (count < 0) return BAD;
            for (i64 j = 0; j < count; j++) {
                u32 point = points[j];
                if (point >= SPECIAL) return BAD;
                u8 class = classes[point];
                int blank = collapse && point == SPACE;
                if (blank && (space || was == UNSPACED)) {
                    held |= was == UNSPACED;
                    continue;
                }
                class = class == MARK ? (held ? 0 : was) : class;
                if (was == UNSPACED && class != UNSPACED) {
                    k = span(starts, sizes, k, unit, behind, !pairs);
                    was = 0;
                    if (held) out[o++] = SPACE;
                }
                held = 0;
                k = span(starts, sizes, k, word, o, was == LETTER && class != LETTER);
                if (was != LETTER) word = o;
                behind = o, o += utf8(out + o, point);
                if (class == UNSPACED) {
                    pairs = was == UNSPACED;
                    k = span(starts, sizes, k, unit, o, pairs);
                    unit = behind, behind = o;
                }
                space = point == SPACE, was = class;
            }
        }
        if (collapse && space && o > out_bounds[t]) o--;
        k = span(starts, sizes, k, word, o, was == LETTER);
        k = span(starts, sizes, k, unit, behind, was == UNSPACED && !pairs);
        out[o++] = 0;
    }
    out_bounds[texts] = o, text_starts[texts] = k;
    memset(out + o, 0, WORD);
    return o;
}

/* shingles.py, `_character_runs`: every run of length code points inside a text. */
EXPORT i64 sf_characters(const u8 *buffer, i64 n, const i64 *bounds, i64 texts, i64 length,
                         i64 *starts, i64 *sizes, i64 most, i64 *text_starts)
{
    i64 k = 0;
    if (length < 1 || !rising(bounds, texts, 1, 1, n)) return BAD;
    for (i64 t = 0; t < texts; t++) {
        i64 begin = bounds[t], last = begin, end = bounds[t + 1] - 1, inside = 0;
        text_starts[t] = k;
        while (last < end) {
            for (last++; last < end && (buffer[last] & 0xC0) == 0x80;) last++;
            if (++inside < length) continue;
            if (k >= most) return BAD;
            k = span(starts, sizes, k, begin, last, 1);
            for (begin++; begin < end && (buffer[begin] & 0xC0) == 0x80;) begin++;
        }
    }
    text_starts[texts] = k;
    return k;
}

static inline u64 word_at(const u8 *p, i64 bytes) /* reads 8 bytes, whatever bytes is */
{
    u64 x;
    memcpy(&x, p, WORD);
    return bytes < WORD ? x & ((1ULL << 8 * bytes) - 1) : x;
}

/* `Multilinear._sum`: add one value to the two sums, by its four factors. */
static inline void add(u64 sums[2], u64 x, const u64 *factors)
{
    sums[0] += x * factors[0] + (x >> 32) * factors[2];
    sums[1] += x * factors[1] + (x >> 32) * factors[3];
}

/* hashing.py, `SpanHasher`: spans above VECTOR_BYTES are left to the caller; their places go to
 * longs. n is that of the buffer with its spare bytes. Return how many are left. */
EXPORT i64 sf_hash(const u8 *buffer, i64 n, const i64 *starts, const i64 *sizes, i64 spans,
                   const u64 *masks, const u64 *factors, const u64 *constants, u64 *hashes,
                   i64 *longs)
{
    i64 left = 0;
    for (i64 i = 0; i < spans; i++) {
        i64 size = sizes[i], start = starts[i];
        if (start < 0 || size < 0 || size > n - WORD || start > n - WORD - size) return BAD;
        const u8 *p = buffer + start;
        if (size <= WORD) {
            hashes[i] = word_at(p, size) ^ masks[size];
        } else if (size > VECTOR_BYTES) {
            hashes[i] = 0, longs[left++] = i;
        } else {
            u64 sums[2] = {constants[2 * size], constants[2 * size + 1]};
            for (i64 j = 0; j < size; j += WORD)
                add(sums, word_at(p + j, size - j), factors + j / 2);
            hashes[i] = (sums[0] & ~(u64)EMPTY) | sums[1] >> 32;
        }
    }
    return left;
}

static inline u32 spread(u32 h)
{
    h = (h ^ h >> 16) * 0x85EBCA6Bu;
    h = (h ^ h >> 13) * 0xC2B2AE35u;
    return h ^ h >> 16;
}

/* shingles.py, `Shingler._runs`: the tokens of the runs of size units in a text; how many. */
EXPORT i64 sf_runs(const u64 *hashes, i64 n, const i64 *text_starts, i64 texts, i64 size,
                   const u64 *factors, const u64 *constants, u64 *tokens, i64 *starts)
{
    i64 k = 0;
    if (size < 1 || !rising(text_starts, texts, 0, 0, n)) return BAD;
    for (i64 t = 0; t < texts; t++) {
        i64 last = text_starts[t + 1] - size;
        starts[t] = k;
        for (i64 i = text_starts[t]; i <= last; i++) {
            u64 sums[2] = {constants[0], constants[1]};
            for (i64 j = 0; j < size; j++) add(sums, hashes[i + j], factors + 4 * j);
            tokens[k++] = (u64)spread((u32)(sums[0] >> 32)) << 32 | spread((u32)(sums[1] >> 32));
        }
    }
    starts[texts] = k;
    return k;
}

/* minhash.py, `MinHasher.sign`. A set of more than REPEATING tokens whose slots are not all filled
 * by the rounds is left as it is then: the caller makes its tokens distinct first. */
EXPORT i64 sf_sign(const u64 *tokens, i64 n, const i64 *starts, i64 sets, i64 slots,
                   const u32 *round_factors, const u64 *factors, const u64 *offsets,
                   u32 *signatures)
{
    if (slots < 1 || slots > 1 << 16 || !rising(starts, sets, 0, 0, n)) return BAD;
    for (i64 t = 0; t < sets; t++) {
        const u64 *its = tokens + starts[t];
        i64 size = starts[t + 1] - starts[t], open = slots;
        u32 *cells = signatures + t * slots;
        memset(cells, 0xFF, (size_t)slots * sizeof *cells);
        for (u32 r = 0; r < ROUNDS && open && size; r++) {
            for (i64 i = 0; i < size; i++) {
                u32 x = (u32)(its[i] >> 32) * round_factors[r];
                x ^= x >> 15;
                i64 slot = (i64)((u64)x * (u64)slots >> 32);
                u32 value = (x & ((1u << VALUE_BITS) - 1)) | r << ROUND_SHIFT, cell = cells[slot];
                open -= cell == EMPTY;
                cells[slot] = value < cell ? value : cell;
            }
        }
        for (i64 s = 0; s < slots && open && size && size <= REPEATING; s++) {
            u64 least = ~0ULL;
            if (cells[s] != EMPTY) continue;
            for (i64 i = 0; i < size; i++) {
                u64 x = its[i] * factors[s] + offsets[s];
                if (x < least) least = x;
            }
            cells[s] = (u32)(least >> (64 - VALUE_BITS)) | (u32)ROUNDS << ROUND_SHIFT;
        }
    }
    return sets;
}

/* One pass of a radix sort: from a to b, stably, by eight bits. */
static void distribute(const u32 *a, u32 *b, i64 n, int shift)
{
    i64 at[257] = {0};
    for (i64 i = 0; i < n; i++) at[(a[i] >> shift & 255) + 1]++;
    for (int i = 0; i < 256; i++) at[i + 1] += at[i];
    for (i64 i = 0; i < n; i++) b[at[a[i] >> shift & 255]++] = a[i];
}

/* sketch.py, `samples_of`: the most smallest distinct upper halves of each set's tokens. work has
 * twice the length of the largest set. Return the length of all samples. */
EXPORT i64 sf_samples(const u64 *tokens, i64 n, const i64 *starts, i64 sets, i64 most, u32 *work,
                      i64 room, u32 *samples, i64 *sizes, i64 *set_sizes)
{
    i64 k = 0;
    if (most < 1 || !rising(starts, sets, 0, 0, n)) return BAD;
    for (i64 t = 0; t < sets; t++) {
        i64 size = starts[t + 1] - starts[t], distinct = 0, begin = k;
        if (size > room / 2) return BAD;
        u32 *a = work, *b = work + size;
        for (i64 i = 0; i < size; i++) a[i] = (u32)(tokens[starts[t] + i] >> 32);
        if (size >= 1024) {
            for (int shift = 0; shift < 32; shift += 16)
                distribute(a, b, size, shift), distribute(b, a, size, shift + 8);
        } else { /* tokens are uniform: by their highest bits, most are in order */
            if (size >= 48) distribute(a, b, size, 24), a = b;
            for (i64 i = 1, j; i < size; i++) {
                u32 x = a[i];
                for (j = i; j > 0 && a[j - 1] > x; j--) a[j] = a[j - 1];
                a[j] = x;
            }
        }
        for (i64 i = 0; i < size; i++)
            if ((!i || a[i] != a[i - 1]) && distinct++ < most) samples[k++] = a[i];
        sizes[t] = k - begin, set_sizes[t] = distinct;
    }
    return k;
}

/* index/bands/bloom_filter.py, `_masks`: the bits of a key in one word of its block. */
static inline u64 bits_of(u64 key, int word)
{
    u64 spread = key * 0x9E3779B97F4A7C15u >> (16 + 12 * word);
    return 1ULL << (spread & 63) | 1ULL << (spread >> 6 & 63);
}

/* A filter is its address, how many words it has, and its step from word to word. */
static inline u64 *block_of(const i64 *filter, u64 key)
{
    return (u64 *)filter[0] + ((key >> 32) * (u64)(filter[1] / BLOCK) >> 32) * BLOCK * filter[2];
}

/* bloom_filter.py, `passed`: bit f of a key's flags says that filter f, of m, perhaps has it. Of
 * some keys at a time, the first words without branches: many lines of memory are on their way. */
EXPORT i64 sf_passed(const i64 *each, i64 m, const u64 *keys, i64 count, u64 *flags)
{
    u64 first[AT_ONCE], place[AT_ONCE]; /* filters of one size and step share the places */
    for (i64 f = 0; f < 3 * m; f += 3) if (each[f + 1] < BLOCK || each[f + 1] >> 34) return BAD;
    for (i64 n; count > 0; count -= n, keys += n, flags += n) {
        n = count < AT_ONCE ? count : AT_ONCE;
        for (i64 i = 0; i < n; i++) first[i] = bits_of(keys[i], 0), flags[i] = 0;
        for (i64 f = 0; f < m; f++) {
            const i64 *its = each + 3 * f;
            const u64 *words = (u64 *)its[0];
            for (i64 i = f && its[1] == its[-2] && its[2] == its[-1] ? n : 0; i < n; i++)
                place[i] = (u64)(block_of(its, keys[i]) - words);
            for (i64 i = 0; i < n; i++) flags[i] |= (u64)!(first[i] & ~words[place[i]]) << f;
        }
        for (i64 i = 0; i < n; i++) for (u64 rest = flags[i]; rest; rest &= rest - 1) {
            const i64 *its = each + 3 * __builtin_ctzll(rest);
            u64 lack = 0, *block = block_of(its, keys[i]);
            for (int w = 1; w < BLOCK && !lack; w++)
                lack = bits_of(keys[i], w) & ~block[w * its[2]];
            if (lack) flags[i] ^= rest & -rest;
        }
    }
    return 0;
}

/* bloom_filter.py, `BloomFilter.add`. */
EXPORT i64 sf_add(const i64 *filter, const u64 *keys, i64 count)
{
    if (filter[1] < BLOCK || filter[1] >> 34) return BAD;
    for (i64 i = 0; i < count; i++) {
        u64 *its = block_of(filter, keys[i]);
        __builtin_prefetch(block_of(filter, keys[i + 16 < count ? i + 16 : i]), 1);
        for (int w = 0; w < BLOCK; w++) its[w * filter[2]] |= bits_of(keys[i], w);
    }
    return count;
}
