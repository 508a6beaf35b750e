// Causal attention of a chunk of new tokens over a paged bf16 KV cache that also holds the past of each sequence.
//
// FlashAttention-2 (Dao, arXiv 2307.08691) on mma.sync: runs on every architecture from sm_80 on, without the
// warpgroup instructions of sm_90 and the tensor memory of sm_100. Compiled for a head size (HEAD_DIM 64 or 128).
//
//   grid (query tiles, heads, batch), 4 warps of 32 query rows
//
//   q, out     [batch][fresh][heads][HEAD_DIM] bf16
//   k, v       [page][PAGE][kv_heads][HEAD_DIM] bf16, keys of tokens 0 .. past + fresh
//   table      [batch][table_stride] page of every 16 tokens

#define PAGE 16
#define WARPS 4
#define QUERIES 128
#define KEYS 64
#define CHUNKS (HEAD_DIM / 8)
#define ROW_TILES 2
#define KEY_TILES (KEYS / 8)
#define COLUMN_TILES (HEAD_DIM / 8)

struct Softmax {
    float peak[ROW_TILES][2];
    float sum[ROW_TILES][2];
};

// Starts copying the query rows of this block; rows past the chunk become zero.
DEVICE void fetch_queries(u32 shared, const u16* q, u32 rows, u32 row_stride) {
    UNROLL
    for (u32 i = 0; i < QUERIES * CHUNKS / (WARPS * 32); i++) {
        u32 piece = threadIdx.x + WARPS * 32 * i;
        u32 row = piece / CHUNKS, chunk = piece % CHUNKS;
        u32 there = row < rows ? row : 0;
        copy_async_16(shared + swizzled<CHUNKS>(row, chunk), q + (u64)there * row_stride + chunk * 8, row < rows);
    }
}

// Starts copying this warp's page of a tile of keys or values.
DEVICE void fetch_page(u32 tile, const u16* cache, u64 page, u32 kv_head, u32 kv_heads, u32 start, u32 context,
                       u32 warp, u32 lane) {
    UNROLL
    for (u32 i = 0; i < PAGE * CHUNKS / 32; i++) {
        u32 piece = lane + 32 * i;
        u32 row = piece / CHUNKS, chunk = piece % CHUNKS;
        u64 offset = ((page * PAGE + row) * kv_heads + kv_head) * HEAD_DIM + chunk * 8;
        copy_async_16(tile + swizzled<CHUNKS>(warp * PAGE + row, chunk), cache + offset, start + row < context);
    }
}

// Scores of this warp's 32 queries against a tile of keys.
DEVICE void score(float (&scores)[ROW_TILES][KEY_TILES][4], u32 queries, u32 keys, u32 warp, u32 lane) {
    u32 matrix = lane / 8;
    UNROLL
    for (u32 step = 0; step < HEAD_DIM / 16; step++) {
        u32 a[ROW_TILES][4];
        UNROLL
        for (u32 m = 0; m < ROW_TILES; m++) {
            u32 row = warp * 32 + m * 16 + (matrix & 1) * 8 + lane % 8;
            load_matrices(a[m], queries + swizzled<CHUNKS>(row, step * 2 + (matrix >> 1)));
        }
        UNROLL
        for (u32 pair = 0; pair < KEY_TILES / 2; pair++) {
            u32 b[4];
            u32 row = pair * 16 + (matrix >> 1) * 8 + lane % 8;
            load_matrices(b, keys + swizzled<CHUNKS>(row, step * 2 + (matrix & 1)));
            UNROLL
            for (u32 m = 0; m < ROW_TILES; m++) {
                multiply_add(scores[m][pair * 2], a[m], b[0], b[1]);
                multiply_add(scores[m][pair * 2 + 1], a[m], b[2], b[3]);
            }
        }
    }
}

// Hides keys after the query and keys past the context. `first_query` and `first_key` are positions in the sequence.
DEVICE void mask(float (&scores)[ROW_TILES][KEY_TILES][4], u32 first_query, u32 first_key, u32 context, u32 lane) {
    UNROLL
    for (u32 m = 0; m < ROW_TILES; m++) {
        UNROLL
        for (u32 n = 0; n < KEY_TILES; n++) {
            UNROLL
            for (u32 i = 0; i < 4; i++) {
                u32 query = first_query + m * 16 + lane / 4 + (i >> 1) * 8;
                u32 key = first_key + n * 8 + (lane % 4) * 2 + (i & 1);
                if (key > query || key >= context) scores[m][n][i] = MINUS_INFINITY;
            }
        }
    }
}

// Turns scores into weights under the running softmax and rescales what has been summed so far.
DEVICE void soften(float (&scores)[ROW_TILES][KEY_TILES][4], float (&out)[ROW_TILES][COLUMN_TILES][4],
                   Softmax& softmax, float scale_log2) {
    UNROLL
    for (u32 m = 0; m < ROW_TILES; m++) {
        UNROLL
        for (u32 half = 0; half < 2; half++) {
            float peak = softmax.peak[m][half];
            UNROLL
            for (u32 n = 0; n < KEY_TILES; n++) {
                peak = larger(peak, larger(scores[m][n][half * 2], scores[m][n][half * 2 + 1]));
            }
            peak = larger(peak, shuffle_xor(peak, 1));
            peak = larger(peak, shuffle_xor(peak, 2));
            float rescale = exp2_fast((softmax.peak[m][half] - peak) * scale_log2);
            softmax.peak[m][half] = peak;
            float offset = peak * scale_log2;
            float sum = softmax.sum[m][half] * rescale;
            UNROLL
            for (u32 n = 0; n < KEY_TILES; n++) {
                UNROLL
                for (u32 i = half * 2; i < half * 2 + 2; i++) {
                    scores[m][n][i] = exp2_fast(scores[m][n][i] * scale_log2 - offset);
                    sum += scores[m][n][i];
                }
            }
            softmax.sum[m][half] = sum;
            UNROLL
            for (u32 n = 0; n < COLUMN_TILES; n++) {
                out[m][n][half * 2] *= rescale;
                out[m][n][half * 2 + 1] *= rescale;
            }
        }
    }
}

// Adds a tile of values, weighted.
DEVICE void weigh(float (&out)[ROW_TILES][COLUMN_TILES][4], const float (&weights)[ROW_TILES][KEY_TILES][4],
                  u32 values, u32 lane) {
    u32 matrix = lane / 8;
    UNROLL
    for (u32 step = 0; step < KEYS / 16; step++) {
        u32 a[ROW_TILES][4];
        UNROLL
        for (u32 m = 0; m < ROW_TILES; m++) {
            const float(&left)[4] = weights[m][step * 2];
            const float(&right)[4] = weights[m][step * 2 + 1];
            a[m][0] = pack_bf16(left[0], left[1]);
            a[m][1] = pack_bf16(left[2], left[3]);
            a[m][2] = pack_bf16(right[0], right[1]);
            a[m][3] = pack_bf16(right[2], right[3]);
        }
        UNROLL
        for (u32 pair = 0; pair < COLUMN_TILES / 2; pair++) {
            u32 b[4];
            u32 row = step * 16 + (matrix & 1) * 8 + lane % 8;
            load_matrices_transposed(b, values + swizzled<CHUNKS>(row, pair * 2 + (matrix >> 1)));
            UNROLL
            for (u32 m = 0; m < ROW_TILES; m++) {
                multiply_add(out[m][pair * 2], a[m], b[0], b[1]);
                multiply_add(out[m][pair * 2 + 1], a[m], b[2], b[3]);
            }
        }
    }
}

// Writes this warp's rows, divided by their sums.
DEVICE void store(u16* out, float (&sums)[ROW_TILES][COLUMN_TILES][4], const Softmax& softmax, u32 rows,
                  u32 row_stride, u32 warp, u32 lane) {
    UNROLL
    for (u32 m = 0; m < ROW_TILES; m++) {
        UNROLL
        for (u32 half = 0; half < 2; half++) {
            float sum = softmax.sum[m][half];
            sum += shuffle_xor(sum, 1);
            sum += shuffle_xor(sum, 2);
            u32 row = warp * 32 + m * 16 + half * 8 + lane / 4;
            if (row >= rows) continue;
            float inverse = 1.0f / sum;
            u16* there = out + (u64)row * row_stride + (lane % 4) * 2;
            UNROLL
            for (u32 n = 0; n < COLUMN_TILES; n++) {
                *(u32*)(there + n * 8) = pack_bf16(sums[m][n][half * 2] * inverse, sums[m][n][half * 2 + 1] * inverse);
            }
        }
    }
}

KERNEL(WARPS * 32)
prefill_attention(const u16* q, const u16* k, const u16* v, const u32* table, u16* out, u32 fresh, u32 past,
                  u32 heads, u32 kv_heads, u32 table_stride, float scale_log2) {
    SHARED_MEMORY(shared);
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // Late tiles see most keys: they start first.
    u32 start = (gridDim.x - 1 - blockIdx.x) * QUERIES;
    u32 head = blockIdx.y, sequence = blockIdx.z;
    u32 kv_head = head / (heads / kv_heads);
    u32 rows = smaller(QUERIES, fresh - start);
    u32 context = past + fresh;
    u32 visible = past + start + rows;
    u32 tiles = divide_up(visible, KEYS);
    u32 row_stride = heads * HEAD_DIM;
    u64 first_row = ((u64)sequence * fresh + start) * row_stride + head * HEAD_DIM;
    const u32* my_table = table + (u64)sequence * table_stride;
    u32 pages = divide_up(context, PAGE);

    u32 queries = shared_address(shared);
    u32 keys = queries + QUERIES * CHUNKS * 16;
    u32 values = keys + KEYS * CHUNKS * 16;
    u32 page = warp < pages ? my_table[warp] : 0;
    fetch_queries(queries, q + first_row, rows, row_stride);
    fetch_page(keys, k, page, kv_head, kv_heads, warp * PAGE, context, warp, lane);
    copy_async_commit();

    float sums[ROW_TILES][COLUMN_TILES][4] = {};
    Softmax softmax = {};
    UNROLL
    for (u32 m = 0; m < ROW_TILES; m++) softmax.peak[m][0] = softmax.peak[m][1] = MINUS_INFINITY;
    for (u32 tile = 0; tile < tiles; tile++) {
        copy_async_wait<0>();
        sync_block();
        u32 position = tile * KEYS + warp * PAGE;
        fetch_page(values, v, page, kv_head, kv_heads, position, context, warp, lane);
        copy_async_commit();
        u32 next = (tile + 1) * (KEYS / PAGE) + warp;
        page = next < pages ? my_table[next] : 0;

        float scores[ROW_TILES][KEY_TILES][4] = {};
        score(scores, queries, keys, warp, lane);
        if ((tile + 1) * KEYS > past + start + 1) {
            mask(scores, past + start + warp * 32, tile * KEYS, context, lane);
        }
        soften(scores, sums, softmax, scale_log2);

        copy_async_wait<0>();
        sync_block();
        if (tile + 1 < tiles) {
            fetch_page(keys, k, page, kv_head, kv_heads, position + KEYS, context, warp, lane);
        }
        copy_async_commit();
        weigh(sums, scores, values, lane);
    }
    store(out + first_row, sums, softmax, rows, row_stride, warp, lane);
}
