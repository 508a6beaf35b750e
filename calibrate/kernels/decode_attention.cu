// Attention of one new token per sequence over a paged KV cache, split over the context.
//
// Compiled for a head size (HEAD_DIM 64 or 128) and a KV format (KV_FP8 0: bf16, 1: e4m3 with scale 1).
//
//   grid (splits, kv_heads, batch), 4 warps
//   a block owns the pages of one sequence, one KV head and one split; its warps take them in turn, each with two
//   stages of shared memory of its own, and meet only at the end
//
//   q          [batch][heads][HEAD_DIM] bf16
//   k, v       [page][PAGE][kv_heads][HEAD_DIM]
//   table      [batch][table_stride] page of every 16 tokens of a sequence
//   contexts   [batch] tokens
//   out        [batch][heads][HEAD_DIM] bf16, written here when splits = 1
//   partial    [batch][heads][splits][HEAD_DIM] float, partial_lse [batch][heads][splits]: log2 of the sum of exponents
//
// The up to 16 query heads of a KV head are the rows of a 16-row matrix, so that the tensor cores do the products and
// the kernel stays bound by memory for every group size.

#define PAGE 16
#define WARPS 4
#define STAGES 2
#define ELEMENT (KV_FP8 ? 1 : 2)
#define CHUNKS (HEAD_DIM * ELEMENT / 16)
#define TILE (PAGE * CHUNKS * 16)
#define COLUMN_TILES (HEAD_DIM / 8)

struct State {
    float out[COLUMN_TILES][4];
    float peak[2];
    float sum[2];
};

// Element of a head that a lane holds at place `place` (0..3) of step `step`: the order in which dot products run over
// the head. 8-bit keys arrive four neighbours to a register, so there the order follows them.
DEVICE u32 head_element(u32 step, u32 place, u32 lane) {
    u32 quad = lane % 4;
#if KV_FP8
    const u32 order = place == 0 ? 0 : place == 1 ? 2 : place == 2 ? 1 : 3;
    return step * 16 + quad * 4 + order;
#else
    return step * 16 + quad * 2 + (place & 1) + (place >> 1) * 8;
#endif
}

DEVICE void load_queries(u32 (&query)[HEAD_DIM / 16][4], const u16* q, u32 group, u32 lane) {
    for (u32 half = 0; half < 2; half++) {
        u32 row = lane / 4 + half * 8;
        UNROLL
        for (u32 step = 0; step < HEAD_DIM / 16; step++) {
            UNROLL
            for (u32 pair = 0; pair < 2; pair++) {
                u32 packed = 0;
                if (row < group) {
                    const u16* head = q + (u64)row * HEAD_DIM;
                    packed = head[head_element(step, pair * 2, lane)]
                             | (u32)head[head_element(step, pair * 2 + 1, lane)] << 16;
                }
                query[step][pair * 2 + half] = packed;
            }
        }
    }
}

// Starts copying one page of keys or values of a KV head into a stage; rows from `valid` on become zero.
DEVICE void fetch(u32 stage, const u8* cache, u64 page, u32 kv_head, u32 kv_heads, u32 valid, u32 lane) {
    UNROLL
    for (u32 i = 0; i < PAGE * CHUNKS / 32; i++) {
        u32 piece = lane + 32 * i;
        u32 row = piece / CHUNKS;
        u32 chunk = piece % CHUNKS;
        u64 offset = ((page * PAGE + row) * kv_heads + kv_head) * (CHUNKS * 16) + chunk * 16;
        copy_async_16(stage + swizzled<CHUNKS>(row, chunk), cache + offset, row < valid);
    }
}

// Scores of 16 queries against the 16 keys of a page.
DEVICE void score(float (&scores)[2][4], const u32 (&query)[HEAD_DIM / 16][4], u32 keys, u32 lane) {
    u32 matrix = lane / 8;
    UNROLL
    for (u32 i = 0; i < CHUNKS / 2; i++) {
        u32 r[4];
#if KV_FP8
        load_matrices(r, keys + swizzled<CHUNKS>((matrix & 1) * 8 + lane % 8, i * 2 + (matrix >> 1)));
        UNROLL
        for (u32 part = 0; part < 4; part++) {
            multiply_add(scores[part & 1], query[i * 2 + (part >> 1)], expand_e4m3x2(r[part] & 0x00ff00ffu),
                         expand_e4m3x2((r[part] >> 8) & 0x00ff00ffu));
        }
#else
        load_matrices(r, keys + swizzled<CHUNKS>((matrix >> 1) * 8 + lane % 8, i * 2 + (matrix & 1)));
        multiply_add(scores[0], query[i], r[0], r[1]);
        multiply_add(scores[1], query[i], r[2], r[3]);
#endif
    }
}

// Adds the values of a page, weighted.
DEVICE void weigh(float (&out)[COLUMN_TILES][4], const u32 (&weights)[4], u32 values, u32 lane) {
    u32 matrix = lane / 8;
    UNROLL
    for (u32 i = 0; i < CHUNKS / 2; i++) {
        u32 r[4];
        load_matrices_transposed(r, values + swizzled<CHUNKS>((matrix & 1) * 8 + lane % 8, i * 2 + (matrix >> 1)));
#if KV_FP8
        // A register holds two neighbouring elements of two tokens: even elements make one tile, odd ones the next.
        UNROLL
        for (u32 chunk = 0; chunk < 2; chunk++) {
            u32 tile = (i * 2 + chunk) * 2;
            multiply_add(out[tile], weights, expand_e4m3x2(r[chunk * 2] & 0x00ff00ffu),
                         expand_e4m3x2(r[chunk * 2 + 1] & 0x00ff00ffu));
            multiply_add(out[tile + 1], weights, expand_e4m3x2((r[chunk * 2] >> 8) & 0x00ff00ffu),
                         expand_e4m3x2((r[chunk * 2 + 1] >> 8) & 0x00ff00ffu));
        }
#else
        multiply_add(out[i * 2], weights, r[0], r[1]);
        multiply_add(out[i * 2 + 1], weights, r[2], r[3]);
#endif
    }
}

// Element of a head at column `column` (0 or 1) of a lane's part of tile `tile` of the output.
DEVICE u32 output_element(u32 tile, u32 column, u32 lane) {
#if KV_FP8
    return (tile / 2) * 16 + ((lane % 4) * 2 + column) * 2 + (tile & 1);
#else
    return tile * 8 + (lane % 4) * 2 + column;
#endif
}

// Takes one page in shared memory into the running softmax (Milakov and Gimelshein, arXiv 1805.02867).
DEVICE void absorb(State& state, const u32 (&query)[HEAD_DIM / 16][4], u32 keys, u32 values, u32 valid,
                   float scale_log2, u32 lane) {
    float scores[2][4] = {};
    score(scores, query, keys, lane);
    float rescale[2];
    UNROLL
    for (u32 half = 0; half < 2; half++) {
        float peak = state.peak[half];
        UNROLL
        for (u32 i = 0; i < 4; i++) {
            float& s = scores[i >> 1][half * 2 + (i & 1)];
            u32 token = (i >> 1) * 8 + (lane % 4) * 2 + (i & 1);
            s = token < valid ? s * scale_log2 : MINUS_INFINITY;
            peak = larger(peak, s);
        }
        peak = larger(peak, shuffle_xor(peak, 1));
        peak = larger(peak, shuffle_xor(peak, 2));
        rescale[half] = exp2_fast(state.peak[half] - peak);
        state.peak[half] = peak;
        float sum = 0;
        UNROLL
        for (u32 i = 0; i < 4; i++) {
            float& s = scores[i >> 1][half * 2 + (i & 1)];
            s = exp2_fast(s - peak);
            sum += s;
        }
        state.sum[half] = state.sum[half] * rescale[half] + sum;
    }
    UNROLL
    for (u32 tile = 0; tile < COLUMN_TILES; tile++) {
        UNROLL
        for (u32 i = 0; i < 4; i++) {
            state.out[tile][i] *= rescale[i >> 1];
        }
    }
    u32 weights[4] = {pack_bf16(scores[0][0], scores[0][1]), pack_bf16(scores[0][2], scores[0][3]),
                      pack_bf16(scores[1][0], scores[1][1]), pack_bf16(scores[1][2], scores[1][3])};
    weigh(state.out, weights, values, lane);
}

// Lays a warp's state into shared memory: peaks and sums of all warps first, then their outputs.
DEVICE void publish(const State& state, float* area, u32 warp, u32 group, u32 lane) {
    float* out = area + 2 * WARPS * 16 + warp * 16 * HEAD_DIM;
    UNROLL
    for (u32 half = 0; half < 2; half++) {
        u32 row = lane / 4 + half * 8;
        float sum = state.sum[half];
        sum += shuffle_xor(sum, 1);
        sum += shuffle_xor(sum, 2);
        if (row >= group) continue;
        if (lane % 4 == 0) {
            area[warp * 16 + row] = state.peak[half];
            area[(WARPS + warp) * 16 + row] = sum;
        }
        UNROLL
        for (u32 tile = 0; tile < COLUMN_TILES; tile++) {
            out[row * HEAD_DIM + output_element(tile, 0, lane)] = state.out[tile][half * 2];
            out[row * HEAD_DIM + output_element(tile, 1, lane)] = state.out[tile][half * 2 + 1];
        }
    }
}

// Three blocks share a multiprocessor: more bytes on their way hide more of the memory's latency.
KERNEL(WARPS * 32, 3)
decode_attention(const u16* q, const u8* k, const u8* v, const u32* table, const u32* contexts, u16* out,
                 float* partial, float* partial_lse, u32 heads, u32 kv_heads, u32 table_stride, u32 splits,
                 float scale_log2) {
    SHARED_MEMORY(shared);
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 split = blockIdx.x, kv_head = blockIdx.y, sequence = blockIdx.z;
    u32 group = heads / kv_heads;
    u32 context = contexts[sequence];
    u32 pages = divide_up(context, PAGE);
    u32 share = divide_up(pages, splits);
    u32 first = smaller(split * share, pages) + warp;
    u32 end = smaller((split + 1) * share, pages);
    const u32* my_table = table + (u64)sequence * table_stride;
    u64 head_row = (u64)sequence * heads + kv_head * group;

    u32 query[HEAD_DIM / 16][4];
    load_queries(query, q + head_row * HEAD_DIM, group, lane);
    State state = {};
    state.peak[0] = state.peak[1] = MINUS_INFINITY;

    u32 stages = shared_address(shared) + warp * STAGES * 2 * TILE;
    // The page number is read one turn ahead, so that copies do not wait for it.
    u32 next = first < end ? my_table[first] : 0;
    if (first < end) {
        fetch(stages, k, next, kv_head, kv_heads, context - first * PAGE, lane);
        fetch(stages + TILE, v, next, kv_head, kv_heads, context - first * PAGE, lane);
        next = first + WARPS < end ? my_table[first + WARPS] : 0;
    }
    copy_async_commit();
    u32 turn = 0;
    for (u32 page = first; page < end; page += WARPS, turn ^= 1) {
        u32 ahead = page + WARPS;
        u32 other = stages + (turn ^ 1) * 2 * TILE;
        if (ahead < end) {
            fetch(other, k, next, kv_head, kv_heads, context - ahead * PAGE, lane);
            fetch(other + TILE, v, next, kv_head, kv_heads, context - ahead * PAGE, lane);
            next = ahead + WARPS < end ? my_table[ahead + WARPS] : 0;
        }
        copy_async_commit();
        copy_async_wait<1>();
        sync_warp();
        u32 mine = stages + turn * 2 * TILE;
        absorb(state, query, mine, mine + TILE, context - page * PAGE, scale_log2, lane);
        sync_warp();
    }
    copy_async_wait<0>();

    // The stages become the meeting place of the warps.
    sync_block();
    float* area = (float*)shared;
    publish(state, area, warp, group, lane);
    sync_block();
    for (u32 i = threadIdx.x; i < group * HEAD_DIM; i += WARPS * 32) {
        u32 row = i / HEAD_DIM, element = i % HEAD_DIM;
        float peak = MINUS_INFINITY;
        for (u32 w = 0; w < WARPS; w++) peak = larger(peak, area[w * 16 + row]);
        float sum = 0, value = 0;
        for (u32 w = 0; w < WARPS; w++) {
            float mine = area[w * 16 + row];
            // A warp without a page has no peak.
            float weight = mine > MINUS_INFINITY ? exp2_fast(mine - peak) : 0.0f;
            sum += weight * area[(WARPS + w) * 16 + row];
            value += weight * area[2 * WARPS * 16 + (w * 16 + row) * HEAD_DIM + element];
        }
        value = sum > 0 ? value / sum : 0.0f;
        u64 head = head_row + row;
        if (splits == 1) {
            out[head * HEAD_DIM + element] = (u16)pack_bf16(value, 0.0f);
        } else {
            partial[(head * splits + split) * HEAD_DIM + element] = value;
            if (element == 0) {
                partial_lse[head * splits + split] = sum > 0 ? peak + log2_fast(sum) : MINUS_INFINITY;
            }
        }
    }
}

// Joins the splits: grid (heads, batch), one thread per element.
KERNEL(HEAD_DIM)
decode_attention_join(const float* partial, const float* partial_lse, u16* out, u32 heads, u32 splits) {
    u64 head = (u64)blockIdx.y * heads + blockIdx.x;
    u32 element = threadIdx.x;
    float peak = MINUS_INFINITY;
    for (u32 s = 0; s < splits; s++) peak = larger(peak, partial_lse[head * splits + s]);
    float sum = 0, value = 0;
    for (u32 s = 0; s < splits; s++) {
        float lse = partial_lse[head * splits + s];
        float weight = lse > MINUS_INFINITY ? exp2_fast(lse - peak) : 0.0f;
        sum += weight;
        value += weight * partial[(head * splits + s) * HEAD_DIM + element];
    }
    out[head * HEAD_DIM + element] = (u16)pack_bf16(value / sum, 0.0f);
}
