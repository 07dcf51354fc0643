// Large fresh buffers: ask the system for huge pages before the first touch. On Linux a fault for
// each 4 KiB page otherwise costs more than the kernels that fill the buffer.
#pragma once

#include <cstdint>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace gattn {

inline void advise_huge([[maybe_unused]] void* data, [[maybe_unused]] std::int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr std::uintptr_t page = 1 << 12, huge = 1 << 21;
  if (bytes < std::int64_t(2 * huge)) return;
  const std::uintptr_t first = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
  const std::uintptr_t last = (reinterpret_cast<std::uintptr_t>(data) + bytes) / page * page;
  // Advice only: where the system declines, the pages are small ones as before.
  (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

}  // namespace gattn
