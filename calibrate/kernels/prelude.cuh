// Words the kernels are written in: 16- and 8-bit floats, asynchronous copies, matrix fragments.
//
// Put in front of every kernel source before it is compiled; there is no #include, so a machine needs no CUDA headers.
// Everything that is PTX stands here and nowhere else: with PDSIM_EMULATED defined these words come from a host
// emulator instead, and the kernels themselves run unchanged on a CPU.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#ifndef PDSIM_EMULATED

#define DEVICE __device__ __forceinline__
#define KERNEL(...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__)
#define SHARED_MEMORY(name) extern __shared__ __align__(128) u8 name[]
#define UNROLL _Pragma("unroll")

DEVICE void sync_block() { __syncthreads(); }
DEVICE void sync_warp() { __syncwarp(); }
DEVICE float as_float(u32 bits) { return __uint_as_float(bits); }
DEVICE u32 as_bits(float value) { return __float_as_uint(value); }
DEVICE float shuffle_xor(float value, int mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }
DEVICE u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

// 2^x, about 2 ulp; 2^-inf = 0.
DEVICE float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

DEVICE float log2_fast(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

DEVICE float rsqrt_fast(float x) {
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Two floats to bf16, round to nearest even; `low` in the low half.
DEVICE u32 pack_bf16(float low, float high) {
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

// a * b + c on two bf16 each; keeps subnormals.
DEVICE u32 fma_bf16x2(u32 a, u32 b, u32 c) {
    u32 d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

// Copies 16 bytes from global to shared memory in the background, or zeros where not `valid`.
DEVICE void copy_async_16(u32 shared, const void* global, bool valid) {
    int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 ::"r"(shared), "l"(__cvta_generic_to_global(global)), "r"(bytes)
                 : "memory");
}

// Closes a group of background copies.
DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `pending` of the youngest groups of this thread are still under way.
template <int pending>
DEVICE void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// Four 8x8 matrices of 16-bit elements; lane i names the address of row i % 8 of matrix i / 8. Lane t receives of each
// matrix the elements (t / 4, 2 (t % 4)) and (t / 4, 2 (t % 4) + 1).
DEVICE void load_matrices(u32 (&r)[4], u32 shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared)
                 : "memory");
}

// The same, each matrix transposed on the way.
DEVICE void load_matrices_transposed(u32 (&r)[4], u32 shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared)
                 : "memory");
}

// d (16x8 floats) += a (16x16 bf16, by rows) * b (16x8 bf16, by columns), fragments as in the PTX ISA, m16n8k16.
DEVICE void multiply_add(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 16 bytes that will not be read again soon.
DEVICE uint4 load_streaming(const uint4* address) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(__cvta_generic_to_global(address)));
    return v;
}

// A word that other GPUs watch: everything written before is visible to them when they see it.
DEVICE void store_release_system(u32* address, u32 value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(address)), "r"(value) : "memory");
}

DEVICE u32 load_acquire_system(const u32* address) {
    u32 value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"(__cvta_generic_to_global(address))
                 : "memory");
    return value;
}

#endif

#define MINUS_INFINITY as_float(0xff800000u)

DEVICE float low_bf16(u32 packed) { return as_float(packed << 16); }
DEVICE float high_bf16(u32 packed) { return as_float(packed & 0xffff0000u); }
DEVICE u32 smaller(u32 a, u32 b) { return a < b ? a : b; }
DEVICE float larger(float a, float b) { return a > b ? a : b; }
DEVICE u32 divide_up(u32 a, u32 b) { return (a + b - 1) / b; }

// Two e4m3 floats, in the low bytes of both halves, to two bf16. Exponent and mantissa keep their distance, so the bits
// are shifted into place and a multiplication by 2^120 corrects the exponent bias (7 against 127), subnormals included.
DEVICE u32 expand_e4m3x2(u32 halves) {
    u32 bits = ((halves & 0x00800080u) << 8) | ((halves & 0x007f007fu) << 4);
    return fma_bf16x2(bits, 0x7b807b80u, 0x80008000u);
}

// Where chunk `chunk` (16 bytes) of row `row` lies in a tile of `chunks` chunks per row, in bytes. Eight rows read at
// one chunk fall on different banks.
template <int chunks>
DEVICE u32 swizzled(u32 row, u32 chunk) {
    u32 turned = chunks >= 8 ? chunk ^ (row & 7) : chunk ^ ((row >> 1) & (chunks - 1));
    return (row * chunks + turned) * 16;
}
