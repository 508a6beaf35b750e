// c = a * w^T on tensor cores, bf16 in and out, sums in float: the stand-in where cuBLASLt is missing.
//
//   a [m][k], w [n][k], c [m][n]; k a multiple of 8
//   grid (n / TILE_N, m / TILE_M, rounded up), WARPS_M * WARPS_N warps
//
// Compiled in two shapes: 128 x 128 for prefill sizes and 16 x 64 for decode sizes. Tiles of 64 elements of k arrive by
// asynchronous copies, STAGES deep.

#define DEPTH 64
#define CHUNKS (DEPTH / 8)
#define THREADS (WARPS_M * WARPS_N * 32)
#define ROW_TILES (TILE_M / WARPS_M / 16)
#define COLUMN_TILES (TILE_N / WARPS_N / 8)
#define STAGE ((TILE_M + TILE_N) * CHUNKS * 16)

// Starts copying `rows` rows of a tile; what lies outside the matrix becomes zero.
template <u32 rows>
DEVICE void fetch(u32 tile, const u16* matrix, u32 first_row, u32 row_count, u32 first_column, u32 columns) {
    UNROLL
    for (u32 i = 0; i < (rows * CHUNKS + THREADS - 1) / THREADS; i++) {
        u32 piece = threadIdx.x + THREADS * i;
        u32 row = piece / CHUNKS, chunk = piece % CHUNKS;
        if (rows * CHUNKS % THREADS != 0 && row >= rows) break;
        u32 column = first_column + chunk * 8;
        bool inside = first_row + row < row_count && column < columns;
        const u16* there = matrix + (inside ? (u64)(first_row + row) * columns + column : 0);
        copy_async_16(tile + swizzled<CHUNKS>(row, chunk), there, inside);
    }
}

DEVICE void multiply(float (&sums)[ROW_TILES][COLUMN_TILES][4], u32 stage, u32 warp_row, u32 warp_column, u32 lane) {
    u32 matrix = lane / 8;
    u32 a_tile = stage, w_tile = stage + TILE_M * CHUNKS * 16;
    UNROLL
    for (u32 step = 0; step < DEPTH / 16; step++) {
        u32 a[ROW_TILES][4];
        UNROLL
        for (u32 m = 0; m < ROW_TILES; m++) {
            u32 row = warp_row + m * 16 + (matrix & 1) * 8 + lane % 8;
            load_matrices(a[m], a_tile + swizzled<CHUNKS>(row, step * 2 + (matrix >> 1)));
        }
        UNROLL
        for (u32 pair = 0; pair < COLUMN_TILES / 2; pair++) {
            u32 w[4];
            u32 row = warp_column + pair * 16 + (matrix >> 1) * 8 + lane % 8;
            load_matrices(w, w_tile + swizzled<CHUNKS>(row, step * 2 + (matrix & 1)));
            UNROLL
            for (u32 m = 0; m < ROW_TILES; m++) {
                multiply_add(sums[m][pair * 2], a[m], w[0], w[1]);
                multiply_add(sums[m][pair * 2 + 1], a[m], w[2], w[3]);
            }
        }
    }
}

KERNEL(THREADS) matmul(const u16* a, const u16* w, u16* c, u32 m, u32 n, u32 k) {
    SHARED_MEMORY(shared);
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 warp_row = warp / WARPS_N * (TILE_M / WARPS_M);
    u32 warp_column = warp % WARPS_N * (TILE_N / WARPS_N);
    u32 first_row = blockIdx.y * TILE_M, first_column = blockIdx.x * TILE_N;
    u32 base = shared_address(shared);
    u32 steps = divide_up(k, DEPTH);

    float sums[ROW_TILES][COLUMN_TILES][4] = {};
    UNROLL
    for (u32 s = 0; s < STAGES - 1; s++) {
        if (s < steps) {
            fetch<TILE_M>(base + s * STAGE, a, first_row, m, s * DEPTH, k);
            fetch<TILE_N>(base + s * STAGE + TILE_M * CHUNKS * 16, w, first_column, n, s * DEPTH, k);
        }
        copy_async_commit();
    }
    for (u32 step = 0; step < steps; step++) {
        copy_async_wait<STAGES - 2>();
        sync_block();
        // Everyone has left the stage of the step before: it takes the step that is STAGES - 1 ahead.
        u32 ahead = step + STAGES - 1;
        if (ahead < steps) {
            u32 stage = base + ahead % STAGES * STAGE;
            fetch<TILE_M>(stage, a, first_row, m, ahead * DEPTH, k);
            fetch<TILE_N>(stage + TILE_M * CHUNKS * 16, w, first_column, n, ahead * DEPTH, k);
        }
        copy_async_commit();
        multiply(sums, base + step % STAGES * STAGE, warp_row, warp_column, lane);
    }
    copy_async_wait<0>();

    UNROLL
    for (u32 i = 0; i < ROW_TILES; i++) {
        UNROLL
        for (u32 half = 0; half < 2; half++) {
            u32 row = first_row + warp_row + i * 16 + half * 8 + lane / 4;
            if (row >= m) continue;
            UNROLL
            for (u32 j = 0; j < COLUMN_TILES; j++) {
                u32 column = first_column + warp_column + j * 8 + (lane % 4) * 2;
                u32 packed = pack_bf16(sums[i][j][half * 2], sums[i][j][half * 2 + 1]);
                if (column < n) c[(u64)row * n + column] = (u16)packed;
                if (column + 1 < n) c[(u64)row * n + column + 1] = (u16)(packed >> 16);
            }
        }
    }
}
