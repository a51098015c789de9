// A compressed stream, read in pieces.
#pragma once

#include "engine/data/text_files.h"

#include <string>

namespace titan::fuzz {

/// What the stream holds, or its first bytes if that is much. Throws UserError as ByteReader does.
std::string decompress(const TextFile& file, size_t piece);

/// Bytes that are no stream, and those of a stream, give the same in pieces of any size.
void use_stream(const TextFile& file);

}  // namespace titan::fuzz
