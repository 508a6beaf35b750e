// Plain use of memory and nothing at all: the ceiling that other kernels are held against, and the cost of a launch.

#define THREADS 256
#define UNROLLED 8

// Reads `count` times 16 bytes and keeps the exclusive or of each thread's share: every byte is needed, nothing but a
// few bytes is written. out has one word per thread.
KERNEL(THREADS) stream_read(const uint4* data, u32* out, u64 count) {
    u64 thread = (u64)blockIdx.x * THREADS + threadIdx.x;
    u64 step = (u64)gridDim.x * THREADS;
    u32 seen = 0;
    u64 i = thread;
    for (; i + (UNROLLED - 1) * step < count; i += UNROLLED * step) {
        uint4 part[UNROLLED];
        UNROLL
        for (u32 j = 0; j < UNROLLED; j++) part[j] = load_streaming(data + i + j * step);
        UNROLL
        for (u32 j = 0; j < UNROLLED; j++) seen ^= part[j].x ^ part[j].y ^ part[j].z ^ part[j].w;
    }
    for (; i < count; i += step) {
        uint4 part = load_streaming(data + i);
        seen ^= part.x ^ part.y ^ part.z ^ part.w;
    }
    out[thread] = seen;
}

KERNEL(32) nothing() {}

// A well-mixed word of a counter (the finaliser of MurmurHash3).
DEVICE u32 mix(u32 x) {
    x ^= x >> 16;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    x *= 0xc2b2ae35u;
    return x ^ x >> 16;
}

// Fills with bf16 spread evenly over +-scale. Never zeros: boards draw less power on constant data, and clocks rise.
KERNEL(THREADS) fill_bf16(u16* data, u64 count, u32 seed, float scale) {
    u64 step = (u64)gridDim.x * THREADS;
    for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < count; i += step) {
        u32 random = mix((u32)i ^ mix(seed + (u32)(i >> 32)));
        float value = ((float)random * 4.656612873077393e-10f - 1.0f) * scale;
        data[i] = (u16)pack_bf16(value, 0.0f);
    }
}

// Fills with e4m3 of random sign and mantissa and magnitudes from 1/8 to below 2.
KERNEL(THREADS) fill_e4m3(u8* data, u64 count, u32 seed) {
    u64 step = (u64)gridDim.x * THREADS;
    for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < count; i += step) {
        u32 random = mix((u32)i ^ mix(seed + (u32)(i >> 32)));
        data[i] = (u8)((random & 0x87) | (4 + (random >> 8) % 4) << 3);
    }
}
