// Runs the CUDA kernels of calibrate/kernels on a CPU, thread by thread, so that their results can be checked where there
// is no GPU. Stands in for the PTX words of prelude.cuh, with the fragment layouts of the PTX ISA.
//
// Every CUDA thread is a fiber. Warp-wide words (fragments, shuffles) gather all 32 lanes; a barrier gathers the block.
// Background copies land as late as they may, when a wait asks for them, and shared memory starts as NaN: a missing wait
// shows. Global buffers end at an unmapped page: an overrun crashes. What it cannot show: races between warps that
// happen to run in a harmless order (it runs them in two orders), memory ordering, and time.

#include <csetjmp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <sys/mman.h>
#include <tuple>
#include <ucontext.h>
#include <unistd.h>
#include <utility>
#include <vector>

struct uint4 {
    unsigned x, y, z, w;
};

namespace emu {

[[noreturn]] inline void fail(const char* what) {
    std::fprintf(stderr, "emulator: %s\n", what);
    std::exit(3);
}

struct Dim {
    unsigned x = 1, y = 1, z = 1;
};

struct Copy {
    unsigned to;
    unsigned char bytes[16];
};

constexpr size_t SLOT = 160;

struct Warp {
    unsigned char in[2][32][SLOT], out[2][32][SLOT];
    int kind[2] = {}, arrived[2] = {};
    unsigned long done = 0;
};

struct Block {
    Dim index, size, grid;
    std::vector<unsigned char> shared;
    std::vector<Warp> warps;
    unsigned threads = 0, waiting = 0;
    unsigned long barriers = 0;
};

struct Fiber {
    Block* block;
    Dim index;
    unsigned long operations = 0;
    std::vector<std::vector<Copy>> groups;
    std::vector<Copy> open;
    std::function<void()> body;
    jmp_buf state;
    ucontext_t start;
    bool begun = false, done = false;
};

inline Fiber* current;
inline jmp_buf scheduler;
inline bool backwards = false;

inline void yield() {
    if (_setjmp(current->state) == 0) _longjmp(scheduler, 1);
}

inline void enter() {
    current->body();
    current->done = true;
    _longjmp(scheduler, 1);
}

inline void resume(Fiber& f) {
    current = &f;
    if (_setjmp(scheduler) == 0) {
        if (f.begun) _longjmp(f.state, 1);
        f.begun = true;
        setcontext(&f.start);
    }
}

// Runs all threads of all these blocks side by side.
inline void run(std::vector<Block>& blocks, const std::vector<std::function<void()>>& bodies) {
    constexpr size_t STACK = 96 * 1024;
    static std::vector<std::vector<unsigned char>> stacks;
    std::vector<Fiber> fibers;
    size_t threads = 0;
    for (auto& b : blocks) threads += b.threads;
    fibers.reserve(threads);
    while (stacks.size() < threads) stacks.emplace_back(STACK);
    for (size_t b = 0; b < blocks.size(); b++) {
        for (unsigned t = 0; t < blocks[b].threads; t++) {
            fibers.emplace_back();
            Fiber& f = fibers.back();
            f.block = &blocks[b];
            f.index = {t, 0, 0};
            f.body = bodies[b];
            getcontext(&f.start);
            f.start.uc_stack.ss_sp = stacks[fibers.size() - 1].data();
            f.start.uc_stack.ss_size = STACK;
            makecontext(&f.start, enter, 0);
        }
    }
    for (size_t left = threads; left > 0;) {
        for (size_t i = 0; i < threads; i++) {
            Fiber& f = fibers[backwards ? threads - 1 - i : i];
            if (f.done) continue;
            resume(f);
            if (f.done) left--;
        }
    }
    for (auto& f : fibers) {
        for (auto& g : f.groups)
            if (!g.empty()) fail("a thread ended with copies under way");
    }
}

enum Kind { SHUFFLE = 1, MATRICES, TRANSPOSED, MULTIPLY, MEET };

// Gathers the inputs of a warp; the last lane to come lets `all` turn them into outputs.
template <class In, class Out>
void warp_wide(int kind, const In& in, Out& out, const std::function<void(const In**, Out**)>& all) {
    static_assert(sizeof(In) <= SLOT && sizeof(Out) <= SLOT);
    Warp& w = current->block->warps[current->index.x / 32];
    unsigned lane = current->index.x % 32;
    unsigned long mine = current->operations++;
    int slot = mine & 1;
    std::memcpy(w.in[slot][lane], &in, sizeof in);
    if (w.arrived[slot] == 0) w.kind[slot] = kind;
    if (w.kind[slot] != kind) fail("lanes of a warp meet in different words");
    if (++w.arrived[slot] == 32) {
        const In* ins[32];
        Out* outs[32];
        for (int l = 0; l < 32; l++) {
            ins[l] = reinterpret_cast<const In*>(w.in[slot][l]);
            outs[l] = reinterpret_cast<Out*>(w.out[slot][l]);
        }
        all(ins, outs);
        w.arrived[slot] = 0;
        w.done = mine + 1;
    } else {
        while (w.done <= mine) yield();
    }
    std::memcpy(&out, w.out[slot][lane], sizeof out);
}

inline float from_bf16(unsigned short bits) {
    unsigned wide = (unsigned)bits << 16;
    float f;
    std::memcpy(&f, &wide, 4);
    return f;
}

inline unsigned short to_bf16(float f) {
    unsigned bits;
    std::memcpy(&bits, &f, 4);
    if (f != f) return 0x7fff;
    return (unsigned short)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline unsigned short half_of(unsigned packed, int i) { return (unsigned short)(packed >> (16 * i)); }

struct Quad {
    unsigned r[4];
};

inline void matrices(int kind, unsigned (&r)[4], unsigned address) {
    Quad out;
    warp_wide<unsigned, Quad>(kind, address, out, [kind](const unsigned** at, Quad** to) {
        const auto& shared = current->block->shared;
        for (int m = 0; m < 4; m++) {
            unsigned short element[8][8];
            for (int row = 0; row < 8; row++) {
                unsigned from = *at[m * 8 + row];
                if (from % 16 != 0 || from + 16 > shared.size()) fail("a matrix row lies outside shared memory");
                std::memcpy(element[row], &shared[from], 16);
            }
            for (int t = 0; t < 32; t++) {
                unsigned packed = 0;
                for (int i = 0; i < 2; i++) {
                    int major = t / 4, minor = 2 * (t % 4) + i;
                    unsigned short e = kind == TRANSPOSED ? element[minor][major] : element[major][minor];
                    packed |= (unsigned)e << (16 * i);
                }
                to[t]->r[m] = packed;
            }
        }
    });
    std::memcpy(r, out.r, sizeof r);
}

struct Product {
    float d[4];
    unsigned a[4], b[2];
};

struct Sums {
    float d[4];
};

inline void multiply(const Product** in, Sums** out) {
    float a[16][16], b[16][8], d[16][8];
    for (int t = 0; t < 32; t++) {
        int g = t / 4, q = t % 4;
        for (int i = 0; i < 2; i++) {
            for (int r = 0; r < 4; r++) a[g + (r & 1) * 8][q * 2 + i + (r >> 1) * 8] = from_bf16(half_of(in[t]->a[r], i));
            for (int r = 0; r < 2; r++) b[q * 2 + i + r * 8][g] = from_bf16(half_of(in[t]->b[r], i));
        }
        for (int i = 0; i < 4; i++) d[g + (i >> 1) * 8][q * 2 + (i & 1)] = in[t]->d[i];
    }
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 8; n++)
            for (int k = 0; k < 16; k++) d[m][n] += a[m][k] * b[k][n];
    for (int t = 0; t < 32; t++)
        for (int i = 0; i < 4; i++) out[t]->d[i] = d[t / 4 + (i >> 1) * 8][(t % 4) * 2 + (i & 1)];
}

// A buffer that ends where the memory ends.
struct Buffer {
    unsigned char* data = nullptr;
    size_t size = 0;

    void allocate(size_t bytes) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        size_t room = (bytes + page - 1) / page * page;
        void* base = mmap(nullptr, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base == MAP_FAILED) fail("out of memory");
        mprotect((unsigned char*)base + room, page, PROT_NONE);
        // Devices align allocations; only the tail up to the next 16 bytes stays unguarded.
        data = (unsigned char*)base + (room - (bytes + 15) / 16 * 16);
        size = bytes;
    }
};

struct Argument {
    unsigned char* pointer;
    uint64_t value;
};

template <class T>
T unpack(const Argument& a) {
    if constexpr (std::is_pointer_v<T>) {
        return reinterpret_cast<T>(a.pointer);
    } else if constexpr (std::is_same_v<T, float>) {
        unsigned bits = (unsigned)a.value;
        float f;
        std::memcpy(&f, &bits, 4);
        return f;
    } else {
        return (T)a.value;
    }
}

using Entry = std::function<void(const std::vector<Argument>&)>;

template <class... A, size_t... I>
void call(void (*kernel)(A...), const std::vector<Argument>& arguments, std::index_sequence<I...>) {
    kernel(unpack<A>(arguments[I])...);
}

template <class... A>
Entry entry(void (*kernel)(A...)) {
    return [kernel](const std::vector<Argument>& arguments) {
        if (arguments.size() != sizeof...(A)) fail("wrong number of arguments");
        call(kernel, arguments, std::index_sequence_for<A...>{});
    };
}

struct Launch {
    Entry entry;
    Dim grid;
    unsigned threads, shared;
    std::vector<Argument> arguments;
};

inline Block block_of(const Launch& l, Dim index) {
    Block b;
    b.index = index;
    b.grid = l.grid;
    b.size = {l.threads, 1, 1};
    b.threads = l.threads;
    b.shared.assign(l.shared, 0xff);
    b.warps.resize((l.threads + 31) / 32);
    return b;
}

inline void execute(const std::vector<Launch>& launches, bool together) {
    std::vector<Block> blocks;
    std::vector<std::function<void()>> bodies;
    for (const auto& l : launches) {
        for (unsigned z = 0; z < l.grid.z; z++)
            for (unsigned y = 0; y < l.grid.y; y++)
                for (unsigned x = 0; x < l.grid.x; x++) {
                    blocks.push_back(block_of(l, {x, y, z}));
                    bodies.push_back([&l] { l.entry(l.arguments); });
                    if (!together) {
                        run(blocks, bodies);
                        blocks.clear();
                        bodies.clear();
                    }
                }
    }
    if (together) run(blocks, bodies);
}

template <class T>
T take() {
    T value;
    if (std::fread(&value, sizeof value, 1, stdin) != 1) fail("the request ends early");
    return value;
}

// Reads buffers, addresses to write into buffers, and launches; runs them; writes the buffers back.
inline int serve(const std::map<std::string, Entry>& entries) {
    backwards = take<uint32_t>() != 0;
    bool together = take<uint32_t>() != 0;
    std::vector<Buffer> buffers(take<uint32_t>());
    for (auto& b : buffers) {
        b.allocate(take<uint64_t>());
        if (b.size && std::fread(b.data, b.size, 1, stdin) != 1) fail("the request ends early");
    }
    for (uint32_t n = take<uint32_t>(); n > 0; n--) {
        uint32_t into = take<uint32_t>();
        uint32_t offset = take<uint32_t>();
        uint64_t address = (uint64_t)buffers.at(take<uint32_t>()).data;
        std::memcpy(buffers.at(into).data + offset, &address, 8);
    }
    std::vector<Launch> launches(take<uint32_t>());
    for (auto& l : launches) {
        std::string name(take<uint32_t>(), ' ');
        if (std::fread(name.data(), name.size(), 1, stdin) != 1) fail("the request ends early");
        if (!entries.count(name)) fail("no such kernel");
        l.entry = entries.at(name);
        l.grid.x = take<uint32_t>();
        l.grid.y = take<uint32_t>();
        l.grid.z = take<uint32_t>();
        l.threads = take<uint32_t>();
        l.shared = take<uint32_t>();
        l.arguments.resize(take<uint32_t>());
        for (auto& a : l.arguments) {
            bool pointer = take<uint32_t>() != 0;
            a.value = take<uint64_t>();
            a.pointer = pointer ? buffers.at(a.value).data : nullptr;
        }
    }
    execute(launches, together);
    for (auto& b : buffers) std::fwrite(b.data, 1, b.size, stdout);
    return 0;
}

}  // namespace emu

#define PDSIM_EMULATED
#define DEVICE static inline
#define KERNEL(...) static void
#define SHARED_MEMORY(name) unsigned char* name = emu::current->block->shared.data()
#define UNROLL
#define threadIdx (emu::current->index)
#define blockIdx (emu::current->block->index)
#define gridDim (emu::current->block->grid)

static inline void sync_block() {
    emu::Block& b = *emu::current->block;
    unsigned long mine = b.barriers;
    if (++b.waiting == b.threads) {
        b.waiting = 0;
        b.barriers++;
    } else {
        while (b.barriers == mine) emu::yield();
    }
}

static inline void sync_warp() {
    int nothing = 0, out;
    emu::warp_wide<int, int>(emu::MEET, nothing, out, [](const int**, int**) {});
}

static inline float as_float(unsigned bits) {
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
}

static inline unsigned as_bits(float f) {
    unsigned bits;
    std::memcpy(&bits, &f, 4);
    return bits;
}

static inline float shuffle_xor(float value, int mask) {
    float out;
    emu::warp_wide<float, float>(emu::SHUFFLE, value, out, [mask](const float** in, float** to) {
        for (int l = 0; l < 32; l++) *to[l] = *in[l ^ mask];
    });
    return out;
}

static inline unsigned shared_address(const void* pointer) {
    return (unsigned)((const unsigned char*)pointer - emu::current->block->shared.data());
}

static inline float exp2_fast(float x) { return std::exp2(x); }
static inline float log2_fast(float x) { return std::log2(x); }
static inline float rsqrt_fast(float x) { return 1.0f / std::sqrt(x); }

static inline unsigned pack_bf16(float low, float high) {
    return emu::to_bf16(low) | (unsigned)emu::to_bf16(high) << 16;
}

static inline unsigned fma_bf16x2(unsigned a, unsigned b, unsigned c) {
    float r[2];
    for (int i = 0; i < 2; i++) {
        r[i] = std::fma(emu::from_bf16(emu::half_of(a, i)), emu::from_bf16(emu::half_of(b, i)),
                        emu::from_bf16(emu::half_of(c, i)));
    }
    return pack_bf16(r[0], r[1]);
}

static inline void copy_async_16(unsigned shared, const void* global, bool valid) {
    if (shared % 16 != 0 || shared + 16 > emu::current->block->shared.size()) emu::fail("a copy leaves shared memory");
    if ((uintptr_t)global % 16 != 0) emu::fail("a copy starts at an odd address");
    emu::Copy copy;
    copy.to = shared;
    // The source of a row that is not valid may not even be read.
    if (valid) std::memcpy(copy.bytes, global, 16);
    else std::memset(copy.bytes, 0, 16);
    emu::current->open.push_back(copy);
}

static inline void copy_async_commit() {
    emu::current->groups.push_back(std::move(emu::current->open));
    emu::current->open.clear();
}

template <int pending>
static inline void copy_async_wait() {
    auto& groups = emu::current->groups;
    while (groups.size() > (size_t)pending) {
        for (const auto& c : groups.front()) std::memcpy(&emu::current->block->shared[c.to], c.bytes, 16);
        groups.erase(groups.begin());
    }
}

static inline void load_matrices(unsigned (&r)[4], unsigned shared) { emu::matrices(emu::MATRICES, r, shared); }

static inline void load_matrices_transposed(unsigned (&r)[4], unsigned shared) {
    emu::matrices(emu::TRANSPOSED, r, shared);
}

static inline void multiply_add(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    emu::Product in;
    std::memcpy(in.d, d, sizeof d);
    std::memcpy(in.a, a, sizeof a);
    in.b[0] = b0;
    in.b[1] = b1;
    emu::Sums out;
    emu::warp_wide<emu::Product, emu::Sums>(emu::MULTIPLY, in, out, emu::multiply);
    std::memcpy(d, out.d, sizeof d);
}

static inline uint4 load_streaming(const uint4* address) { return *address; }

static inline void store_release_system(unsigned* address, unsigned value) { *address = value; }

static inline unsigned load_acquire_system(const unsigned* address) {
    emu::yield();
    return *address;
}

#define ENTRY(kernel) {#kernel, emu::entry(kernel)}
