// The functions in this file allocate scratch buffers, and request huge pages for large tensors.
// Without huge pages, Linux has a page fault for each new 4 KiB page, which takes more time than
// the kernels that fill the memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace gattn {

// Ask the system to use huge pages for memory that has not been written yet.
inline void advise_huge([[maybe_unused]] void* data, [[maybe_unused]] std::int64_t num_bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr std::uintptr_t page = 1 << 12, huge = 1 << 21;
  if (num_bytes < std::int64_t(2 * huge)) return;
  const std::uintptr_t first = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
  const std::uintptr_t last = (reinterpret_cast<std::uintptr_t>(data) + num_bytes) / page * page;
  // The result is ignored, because without huge pages the memory is only slower.
  (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
  // Each thread writes first to huge pages that no other thread writes to. Otherwise several
  // threads would write to the same new page, and all of them would wait for its page fault.
  auto* bytes = static_cast<volatile char*>(data);
#pragma omp parallel for schedule(static)
  for (std::int64_t at = 0; at < num_bytes; at += huge) bytes[at] = 0;
#endif
}

// Configure malloc to reuse freed memory, because a training step frees memory that the next step
// allocates. By default, glibc returns freed memory to the system when the free memory at the end
// of the heap exceeds twice the size of the largest block. Every page then causes a page fault
// again in each step. With this configuration, blocks of up to 32 MiB come from the heap, as in
// glibc's dynamic limit, and the heap is trimmed when more than 128 MiB are free.
inline void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 128 << 20);
#endif
}

struct AlignedDelete {
  static constexpr std::align_val_t alignment{64};
  void operator()(void* data) const { ::operator delete(data, alignment); }
};
template <class A> using Scratch = std::unique_ptr<A[], AlignedDelete>;

// This class owns memory that is not initialised and is freed at the end of a call.
template <class A> Scratch<A> scratch(std::int64_t size) {
  const std::int64_t num_bytes = size * std::int64_t(sizeof(A));
  Scratch<A> memory(static_cast<A*>(::operator new(num_bytes, AlignedDelete::alignment)));
  advise_huge(memory.get(), num_bytes);
  return memory;
}

struct Free {
  void operator()(void* data) const { std::free(data); }
};

[[gnu::noinline]] inline void* allocate_zeros(std::int64_t num_bytes) {
  void* data = std::calloc(num_bytes, 1);
  if (data == nullptr && num_bytes) throw std::bad_alloc();
  return data;
}

// This class owns the memory of one thread, which is initialised to zero. A copy of it is empty,
// because each thread copies the body of a kernel and then allocates the buffers of its copy.
template <class A> class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::int64_t size) { resize(size); }
  Buffer(const Buffer&) noexcept {}
  Buffer& operator=(const Buffer&) = delete;

  // The memory is aligned to cache lines, so that no vector register is stored across two lines.
  void resize(std::int64_t size) {
    constexpr std::int64_t line = 64;
    memory_.reset(allocate_zeros(size * std::int64_t(sizeof(A)) + line));
    const auto first = reinterpret_cast<std::uintptr_t>(memory_.get());
    data_ = reinterpret_cast<A*>((first + line - 1) / line * line);
  }
  A* data() const { return data_; }
  A& operator[](std::int64_t at) const { return data_[at]; }

 private:
  std::unique_ptr<void, Free> memory_;
  A* data_ = nullptr;
};

// This class allocates memory in all threads of a parallel region. An exception must not leave the
// region. If one thread cannot allocate memory, all threads therefore skip the work, and the caller
// throws an exception after the region.
class Allocation {
 public:
  // Call `allocate`, and return true if it succeeded in all threads. All threads must call this
  // function.
  template <class Function> bool attempt(const Function& allocate) {
    try {
      allocate();
    } catch (const std::bad_alloc&) {
      failed_ = true;
    }
#pragma omp barrier
    return !failed_;
  }
  void check() const {
    if (failed_) throw std::bad_alloc();
  }

 private:
  std::atomic<bool> failed_ = false;
};

}  // namespace gattn
