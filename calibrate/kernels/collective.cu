// All-reduce over peer memory: what tensor-parallel ranks exchange twice per layer.
//
// Every GPU of the group runs this kernel at the same time, each thread of control with the addresses of all ranks'
// buffers. A barrier over peer memory opens and closes it. Messages up to some hundred KiB are summed by every rank for
// itself (one shot); longer ones in two shots, each rank summing its part and the others fetching it.

#define THREADS 512
#define MAX_RANKS 8

struct Peers {
    u64 data[MAX_RANKS];
    u64 scratch[MAX_RANKS];
    u64 flags[MAX_RANKS];
};

DEVICE uint4 sum_of_ranks(const u64 (&data)[MAX_RANKS], u32 ranks, u64 i) {
    float sum[8] = {};
    for (u32 r = 0; r < ranks; r++) {
        uint4 part = ((const uint4*)data[r])[i];
        sum[0] += low_bf16(part.x);
        sum[1] += high_bf16(part.x);
        sum[2] += low_bf16(part.y);
        sum[3] += high_bf16(part.y);
        sum[4] += low_bf16(part.z);
        sum[5] += high_bf16(part.z);
        sum[6] += low_bf16(part.w);
        sum[7] += high_bf16(part.w);
    }
    uint4 packed;
    packed.x = pack_bf16(sum[0], sum[1]);
    packed.y = pack_bf16(sum[2], sum[3]);
    packed.z = pack_bf16(sum[4], sum[5]);
    packed.w = pack_bf16(sum[6], sum[7]);
    return packed;
}

// Waits until this block of every rank has come here. flags[rank] holds [blocks][MAX_RANKS] arrivals of the ranks, then
// [blocks] meetings held so far: the kernel counts for itself, so that a recorded launch can be repeated.
DEVICE void meet(const Peers& peers, u32 rank, u32 ranks, u32 count) {
    sync_block();
    if (threadIdx.x < ranks) {
        u32* theirs = (u32*)peers.flags[threadIdx.x] + blockIdx.x * MAX_RANKS + rank;
        u32* mine = (u32*)peers.flags[rank] + blockIdx.x * MAX_RANKS + threadIdx.x;
        store_release_system(theirs, count);
        // Differences, so that the counter may wrap.
        while ((int)(load_acquire_system(mine) - count) < 0) {
        }
    }
    sync_block();
}

DEVICE u32* meetings(const Peers& peers, u32 rank) {
    return (u32*)peers.flags[rank] + gridDim.x * MAX_RANKS + blockIdx.x;
}

// out: `words` times 16 bytes.
KERNEL(THREADS) all_reduce_one_shot(const Peers* peers, uint4* out, u32 rank, u32 ranks, u64 words) {
    u32 held = *meetings(*peers, rank);
    meet(*peers, rank, ranks, held + 1);
    u64 step = (u64)gridDim.x * THREADS;
    for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < words; i += step) {
        out[i] = sum_of_ranks(peers->data, ranks, i);
    }
    // Nobody may overwrite its input before all have read it.
    meet(*peers, rank, ranks, held + 2);
    if (threadIdx.x == 0) *meetings(*peers, rank) = held + 2;
}

// `words` a multiple of ranks. Block b of every rank works on the same slice of each part, so a barrier of blocks with
// equal number suffices between the shots.
KERNEL(THREADS) all_reduce_two_shot(const Peers* peers, uint4* out, u32 rank, u32 ranks, u64 words) {
    u32 held = *meetings(*peers, rank);
    meet(*peers, rank, ranks, held + 1);
    u64 step = (u64)gridDim.x * THREADS;
    u64 part = words / ranks;
    uint4* sums = (uint4*)peers->scratch[rank];
    for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < part; i += step) {
        sums[i] = sum_of_ranks(peers->data, ranks, rank * part + i);
    }
    meet(*peers, rank, ranks, held + 2);
    for (u32 r = 0; r < ranks; r++) {
        const uint4* theirs = (const uint4*)peers->scratch[r];
        for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < part; i += step) out[r * part + i] = theirs[i];
    }
    // The next call's first meeting keeps scratch from being overwritten early.
    if (threadIdx.x == 0) *meetings(*peers, rank) = held + 2;
}
