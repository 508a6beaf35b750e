// A stand-in for libcuda: host memory for device memory, kernels under the emulator, a clock that each launch moves on.
//
// It runs the first launches for real (the checks of a calibration) and only counts the later ones: their times mean
// nothing, but every call of the measuring path is made with the arguments a real driver would get. One GPU; its facts
// can be set by environment variables.

#include <cstdlib>
#include <memory>

namespace stub {

enum Result { SUCCESS = 0, INVALID = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_IMAGE = 200, NOT_FOUND = 500 };

using Start = std::function<void(void**, unsigned shared, emu::Dim grid, unsigned threads)>;

struct Function {
    std::string name;
    Start start;
    size_t arguments;
    unsigned allowed_shared = 48 * 1024;
};

struct Module {
    std::map<std::string, Function> functions;
};

struct Stream {
    bool recording = false;
    std::vector<std::function<void()>> recorded;
};

using Graph = std::vector<std::function<void()>>;

struct Event {
    double at = -1;
};

inline double now_ms = 0;
inline int executed = 0;

inline long setting(const char* name, long otherwise) {
    const char* text = std::getenv(name);
    return text ? std::atol(text) : otherwise;
}

template <class... A, size_t... I>
void start(void (*kernel)(A...), void** parameters, std::index_sequence<I...>, emu::Dim grid, unsigned threads,
           unsigned shared) {
    // The driver copies arguments when the kernel is launched.
    auto copies = std::make_shared<std::tuple<A...>>(*reinterpret_cast<A*>(parameters[I])...);
    emu::Launch l;
    l.entry = [kernel, copies](const std::vector<emu::Argument>&) { std::apply(kernel, *copies); };
    l.grid = grid;
    l.threads = threads;
    l.shared = shared;
    emu::execute({l}, false);
}

template <class... A>
Function function(const char* name, void (*kernel)(A...)) {
    Function f;
    f.name = name;
    f.arguments = sizeof...(A);
    f.start = [kernel](void** parameters, unsigned shared, emu::Dim grid, unsigned threads) {
        start(kernel, parameters, std::index_sequence_for<A...>{}, grid, threads, shared);
    };
    return f;
}

// Variants by the label the stand-in of the compiler gives them.
std::map<std::string, Module>& modules();

inline std::map<unsigned long long, size_t> allocations;
inline size_t used = 0;

inline size_t total() { return (size_t)setting("STUB_MEMORY_MIB", 192) << 20; }

// Puts work on a stream: at once, or into the graph being recorded.
inline int enqueue(void* stream, std::function<void()> work) {
    Stream* s = (Stream*)stream;
    if (s && s->recording) s->recorded.push_back(std::move(work));
    else work();
    return SUCCESS;
}

}  // namespace stub

#define API extern "C" __attribute__((visibility("default"))) int

API cuInit(unsigned) { return stub::SUCCESS; }
API cuDriverGetVersion(int* v) { return *v = 12080, stub::SUCCESS; }
API cuDeviceGetCount(int* n) { return *n = (int)stub::setting("STUB_GPUS", 1), stub::SUCCESS; }
API cuDeviceGet(int* d, int i) { return *d = i, stub::SUCCESS; }
API cuDeviceGetName(char* name, int size, int) { return std::snprintf(name, (size_t)size, "NVIDIA Stub 1GB"), 0; }
API cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = stub::total(), 0; }
API cuDeviceGetUuid_v2(char* uuid, int) { return std::memset(uuid, 0x5a, 16), 0; }
API cuDeviceCanAccessPeer(int* can, int, int) { return *can = 0, 0; }
API cuDeviceGetAttribute(int* value, int which, int) {
    switch (which) {
        case 16: return *value = 2, 0;        // multiprocessors
        case 38: return *value = 1 << 20, 0;  // level-2 cache
        case 75: return *value = (int)stub::setting("STUB_MAJOR", 9), 0;
        case 76: return *value = 0, 0;
        default: return stub::INVALID;
    }
}
API cuDevicePrimaryCtxRetain(void** c, int) { return *c = (void*)1, 0; }
API cuDevicePrimaryCtxRelease_v2(int) { return 0; }
API cuCtxSetCurrent(void*) { return 0; }
API cuCtxEnablePeerAccess(void*, unsigned) { return stub::INVALID; }
API cuCtxSynchronize() { return 0; }
API cuMemGetInfo_v2(size_t* free_bytes, size_t* all) {
    *all = stub::total();
    *free_bytes = *all - stub::used;
    return 0;
}
API cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
    if (stub::used + bytes > stub::total()) return stub::OUT_OF_MEMORY;
    void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(memory, 0xff, bytes);
    *address = (unsigned long long)memory;
    stub::allocations[*address] = bytes;
    stub::used += bytes;
    return 0;
}
API cuMemFree_v2(unsigned long long address) {
    auto found = stub::allocations.find(address);
    if (found == stub::allocations.end()) return stub::INVALID;
    stub::used -= found->second;
    stub::allocations.erase(found);
    std::free((void*)address);
    return 0;
}
API cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
    return *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096), 0;
}
API cuMemFreeHost(void* memory) { return std::free(memory), 0; }
API cuMemcpyHtoD_v2(unsigned long long to, const void* from, size_t n) { return std::memcpy((void*)to, from, n), 0; }
API cuMemcpyDtoH_v2(void* to, unsigned long long from, size_t n) { return std::memcpy(to, (void*)from, n), 0; }
API cuMemsetD8_v2(unsigned long long to, unsigned char x, size_t n) { return std::memset((void*)to, x, n), 0; }
API cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t n, void* stream) {
    return stub::enqueue(stream, [=] {
        stub::now_ms += 0.05;
        std::memcpy((void*)to, (void*)from, n);
    });
}
API cuModuleLoadData(void** module, const void* image) {
    auto found = stub::modules().find((const char*)image);
    if (found == stub::modules().end()) return stub::INVALID_IMAGE;
    return *module = &found->second, 0;
}
API cuModuleUnload(void*) { return 0; }
API cuModuleGetFunction(void** function, void* module, const char* name) {
    auto& functions = ((stub::Module*)module)->functions;
    auto found = functions.find(name);
    if (found == functions.end()) return stub::NOT_FOUND;
    return *function = &found->second, 0;
}
API cuFuncSetAttribute(void* function, int which, int value) {
    if (which != 8) return stub::INVALID;
    ((stub::Function*)function)->allowed_shared = (unsigned)value;
    return 0;
}
API cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void* stream, void** parameters, void** extra) {
    auto* f = (stub::Function*)function;
    if (extra || by != 1 || bz != 1 || bx > 1024 || gy > 65535 || gz > 65535 || shared > f->allowed_shared)
        return stub::INVALID;
    // Arguments are copied now, as the driver does; eight bytes each are readable.
    auto values = std::make_shared<std::vector<unsigned long long>>();
    for (size_t i = 0; i < f->arguments; i++) values->push_back(*(unsigned long long*)parameters[i]);
    emu::Dim grid{gx, gy, gz};
    return stub::enqueue(stream, [=] {
        stub::now_ms += 0.05;
        if (stub::executed++ >= stub::setting("STUB_EXECUTES", 200)) return;
        std::vector<void*> pointers;
        for (auto& v : *values) pointers.push_back(&v);
        f->start(pointers.data(), shared, grid, bx);
    });
}
API cuStreamCreate(void** stream, unsigned) { return *stream = new stub::Stream, 0; }
API cuStreamDestroy_v2(void* stream) { return delete (stub::Stream*)stream, 0; }
API cuStreamBeginCapture_v2(void* stream, int) { return ((stub::Stream*)stream)->recording = true, 0; }
API cuStreamEndCapture(void* stream, void** graph) {
    auto* s = (stub::Stream*)stream;
    if (!s->recording) return stub::INVALID;
    *graph = new stub::Graph(std::move(s->recorded));
    s->recorded.clear();
    s->recording = false;
    return 0;
}
API cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
    return *executable = new stub::Graph(*(stub::Graph*)graph), 0;
}
API cuGraphDestroy(void* graph) { return delete (stub::Graph*)graph, 0; }
API cuGraphExecDestroy(void* graph) { return delete (stub::Graph*)graph, 0; }
API cuGraphUpload(void*, void*) { return 0; }
API cuGraphLaunch(void* graph, void* stream) {
    return stub::enqueue(stream, [=] {
        for (auto& work : *(stub::Graph*)graph) work();
    });
}
API cuEventCreate(void** event, unsigned flags) { return *event = new stub::Event, flags == 0 ? 0 : stub::INVALID; }
API cuEventDestroy_v2(void* event) { return delete (stub::Event*)event, 0; }
API cuEventRecord(void* event, void*) { return ((stub::Event*)event)->at = stub::now_ms, 0; }
API cuEventQuery(void* event) { return ((stub::Event*)event)->at >= 0 ? 0 : stub::INVALID; }
API cuEventElapsedTime(float* ms, void* from, void* to) {
    return *ms = (float)(((stub::Event*)to)->at - ((stub::Event*)from)->at), 0;
}
