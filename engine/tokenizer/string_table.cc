#include "engine/tokenizer/string_table.h"

#include <xxhash.h>

#include <bit>

namespace titan {

StringTable::StringTable(size_t capacity) : slots_(std::bit_ceil(2 * capacity + 1)) {}

size_t StringTable::slot_of(std::string_view key) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = XXH3_64bits(key.data(), key.size()) & mask;
  while (slots_[slot].id != kAbsent && std::string_view(slots_[slot].data, slots_[slot].size) != key) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

bool StringTable::insert(std::string_view key, int32_t id) {
  Slot& slot = slots_[slot_of(key)];
  if (slot.id != kAbsent) return false;
  slot = {key.data(), static_cast<uint32_t>(key.size()), id};
  return true;
}

int32_t StringTable::find(std::string_view key) const { return slots_[slot_of(key)].id; }

}  // namespace titan
