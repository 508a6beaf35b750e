// The memory-bound kernels between the matrix products of a layer, bf16, 16 bytes per thread and turn.

#define THREADS 256

DEVICE float sum_of_block(float value, float* scratch) {
    UNROLL
    for (int mask = 16; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    sync_block();
    float total = 0;
    UNROLL
    for (u32 i = 0; i < THREADS / 32; i++) total += scratch[i];
    return total;
}

DEVICE u32 add_pair(u32 a, u32 b) {
    return pack_bf16(low_bf16(a) + low_bf16(b), high_bf16(a) + high_bf16(b));
}

DEVICE float square_pair(u32 a) { return low_bf16(a) * low_bf16(a) + high_bf16(a) * high_bf16(a); }

DEVICE u32 scale_pair(u32 a, u32 w, float factor) {
    return pack_bf16(low_bf16(a) * factor * low_bf16(w), high_bf16(a) * factor * high_bf16(w));
}

// residual += x; out = residual / rms(residual) * weight. One block per row of `columns` (a multiple of 8).
KERNEL(THREADS)
rms_norm(const u16* x, u16* residual, const u16* weight, u16* out, u32 columns, float epsilon) {
    SHARED_MEMORY(shared);
    u64 start = (u64)blockIdx.x * columns;
    const uint4* in = (const uint4*)(x + start);
    uint4* kept = (uint4*)(residual + start);
    uint4* to = (uint4*)(out + start);
    const uint4* factors = (const uint4*)weight;
    float squares = 0;
    for (u32 i = threadIdx.x; i < columns / 8; i += THREADS) {
        uint4 a = load_streaming(in + i), r = kept[i];
        r.x = add_pair(r.x, a.x);
        r.y = add_pair(r.y, a.y);
        r.z = add_pair(r.z, a.z);
        r.w = add_pair(r.w, a.w);
        kept[i] = r;
        squares += square_pair(r.x) + square_pair(r.y) + square_pair(r.z) + square_pair(r.w);
    }
    float factor = rsqrt_fast(sum_of_block(squares, (float*)shared) / (float)columns + epsilon);
    for (u32 i = threadIdx.x; i < columns / 8; i += THREADS) {
        uint4 r = kept[i], w = factors[i], o;
        o.x = scale_pair(r.x, w.x, factor);
        o.y = scale_pair(r.y, w.y, factor);
        o.z = scale_pair(r.z, w.z, factor);
        o.w = scale_pair(r.w, w.w, factor);
        to[i] = o;
    }
}

DEVICE float silu(float x) { return x / (1.0f + exp2_fast(-1.4426950408889634f * x)); }

DEVICE u32 gate_pair(u32 gate, u32 up) {
    return pack_bf16(silu(low_bf16(gate)) * low_bf16(up), silu(high_bf16(gate)) * high_bf16(up));
}

// out = silu(x[.., :columns]) * x[.., columns:]; one block per row, columns a multiple of 8.
KERNEL(THREADS) silu_mul(const u16* x, u16* out, u32 columns) {
    const uint4* gate = (const uint4*)(x + (u64)blockIdx.x * 2 * columns);
    const uint4* up = (const uint4*)(x + (u64)blockIdx.x * 2 * columns + columns);
    uint4* to = (uint4*)(out + (u64)blockIdx.x * columns);
    for (u32 i = threadIdx.x; i < columns / 8; i += THREADS) {
        uint4 g = load_streaming(gate + i), u = load_streaming(up + i), o;
        o.x = gate_pair(g.x, u.x);
        o.y = gate_pair(g.y, u.y);
        o.z = gate_pair(g.z, u.z);
        o.w = gate_pair(g.w, u.w);
        to[i] = o;
    }
}

// Turns the halves of every head of a row by its position's angles: (a, b) -> (a cos - b sin, b cos + a sin), in place.
// x [rows][heads][2 * half], angles [positions][2][half] floats (cosines, sines). One block per row.
KERNEL(THREADS) rotary(u16* x, const float* angles, const u32* positions, u32 heads, u32 half) {
    u32* row = (u32*)(x + (u64)blockIdx.x * heads * half * 2);
    const float* cosines = angles + (u64)positions[blockIdx.x] * 2 * half;
    const float* sines = cosines + half;
    u32 pairs = half / 2;
    for (u32 i = threadIdx.x; i < heads * pairs; i += THREADS) {
        u32 head = i / pairs, pair = i % pairs;
        u32* first = row + head * half + pair;
        u32* second = first + pairs;
        u32 a = *first, b = *second;
        float c0 = cosines[pair * 2], c1 = cosines[pair * 2 + 1];
        float s0 = sines[pair * 2], s1 = sines[pair * 2 + 1];
        *first = pack_bf16(low_bf16(a) * c0 - low_bf16(b) * s0, high_bf16(a) * c1 - high_bf16(b) * s1);
        *second = pack_bf16(low_bf16(b) * c0 + low_bf16(a) * s0, high_bf16(b) * c1 + high_bf16(a) * s1);
    }
}
