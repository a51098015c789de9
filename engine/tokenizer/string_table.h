// String -> id by content: open addressing over strings that the owner keeps alive and in place.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace titan {

class StringTable {
 public:
  static constexpr int32_t kAbsent = -1;

  /// Room for `capacity` strings; it does not grow.
  explicit StringTable(size_t capacity = 0);

  /// False, and no change, if the key is already there. `id` >= 0.
  bool insert(std::string_view key, int32_t id);
  int32_t find(std::string_view key) const;

 private:
  struct Slot {
    const char* data = nullptr;
    uint32_t size = 0;
    int32_t id = kAbsent;
  };
  size_t slot_of(std::string_view key) const;

  std::vector<Slot> slots_;  // a power of two, at most half full
};

}  // namespace titan
