// Names of parameters outside titan, which itself uses Hugging Face's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace titan {

/// What Meta's checkpoints and TorchTitan's models call a parameter: "layers.3.attention.wq.weight" for
/// "model.layers.3.self_attn.q_proj.weight".
std::string meta_name(const std::string& parameter);

/// Whether its rows are rotated: those of a head are in another order under Meta's name.
bool is_rotated(std::string_view parameter);

/// The row under Meta's name that is row `row` of titan's. Meta's rotary embedding turns rows 2i and 2i + 1
/// of a head together, Hugging Face's and titan's rows i and head_dim / 2 + i.
std::int64_t meta_row(std::int64_t row, std::int64_t head_dim);

/// Tensors that follow from the model's shape, which older files hold beside the weights.
bool is_derived(std::string_view tensor);

}  // namespace titan
