// Large fresh buffers: ask the system for huge pages before the first touch. On Linux a fault for
// each 4 KiB page otherwise costs more than the kernels that fill the buffer.
#pragma once

#include <cstdint>
#include <memory>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace gattn {

inline void advise_huge([[maybe_unused]] void* data, [[maybe_unused]] std::int64_t num_bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr std::uintptr_t page = 1 << 12, huge = 1 << 21;
  if (num_bytes < std::int64_t(2 * huge)) return;
  const std::uintptr_t first = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
  const std::uintptr_t last = (reinterpret_cast<std::uintptr_t>(data) + num_bytes) / page * page;
  // Advice only: where the system declines, the pages are small ones as before.
  (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
  // Take the faults on all threads: threads that fill one huge page together wait for the one of
  // them that faults.
  auto* bytes = static_cast<volatile char*>(data);
#pragma omp parallel for schedule(static)
  for (std::int64_t at = 0; at < num_bytes; at += huge) bytes[at] = 0;
#endif
}

struct AlignedDelete {
  static constexpr std::align_val_t alignment{64};
  void operator()(void* data) const { ::operator delete(data, alignment); }
};
template <class A> using Scratch = std::unique_ptr<A[], AlignedDelete>;

// Uninitialised memory that lives through one call.
template <class A> Scratch<A> scratch(std::int64_t size) {
  void* data = ::operator new(size * sizeof(A), AlignedDelete::alignment);
  advise_huge(data, size * std::int64_t(sizeof(A)));
  return Scratch<A>(static_cast<A*>(data));
}

}  // namespace gattn
