#include "kernels/cuda/gemm/gemm_table.h"

#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "kernels/base/error.h"

namespace titan::cuda {
namespace {

constexpr std::string_view kTitle = "titan gemm table 1", kDevice = "device ", kVersion = "cublaslt ",
                           kMiddle = " = ", kAlgorithm = "algorithm";

/// Lines of the text, with their numbers for messages.
class Lines {
 public:
  Lines(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  bool next(std::string_view& line) {
    if (text_.empty()) return false;
    ++number_;
    const std::size_t end = text_.find('\n');
    line = text_.substr(0, end);
    text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
    return true;
  }
  /// What follows `start` in the next line, which must begin with it.
  std::string_view expect(std::string_view start) {
    std::string_view line;
    if (!next(line) || !line.starts_with(start)) fail(fmt::format("'{}' is missing", start));
    return line.substr(start.size());
  }
  [[noreturn]] void fail(std::string_view problem) const {
    throw UserError(
        fmt::format("{}:{}: {}; delete the file to have algorithms chosen anew", name_, number_, problem));
  }

 private:
  std::string_view text_, name_;
  int number_ = 0;
};

bool parse_word(std::string_view text, int base, std::uint64_t& word) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), word, base);
  return error == std::errc() && end == text.data() + text.size();
}

GemmAlgorithm parse_algorithm(std::string_view text) {
  std::istringstream words{std::string(text)};
  GemmAlgorithm algorithm;
  std::string word;
  for (std::uint64_t& part : algorithm)
    if (!(words >> word) || !parse_word(word, 16, part))
      throw std::invalid_argument("an algorithm is not 8 hexadecimal numbers");
  if (words >> word) throw std::invalid_argument("an algorithm is more than 8 hexadecimal numbers");
  return algorithm;
}

void parse_line(std::string_view line, GemmTable& table) {
  const std::size_t middle = line.find(kMiddle);
  if (middle == std::string_view::npos) throw std::invalid_argument("there is no ' = '");
  const GemmKey key = parse_gemm_key(line.substr(0, middle));
  table.algorithms[key] = parse_algorithm(line.substr(middle + kMiddle.size()));
}

}  // namespace

std::string to_text(const GemmTable& table) {
  std::string text = fmt::format("{}\n{}{}\n{}{}\n{}{}{}\n", kTitle, kDevice, table.device, kVersion,
                                 table.cublaslt_version, key_columns(), kMiddle, kAlgorithm);
  for (const auto& [key, algorithm] : table.algorithms) {
    text += fmt::format("{} =", to_text(key));
    for (const std::uint64_t word : algorithm) text += fmt::format(" {:016x}", word);
    text += '\n';
  }
  return text;
}

GemmTable parse_gemm_table(std::string_view text, std::string_view name) {
  Lines lines(text, name);
  GemmTable table;
  if (!lines.expect(kTitle).empty()) lines.fail("this version of the table is not known");
  table.device = lines.expect(kDevice);
  if (!parse_word(lines.expect(kVersion), 10, table.cublaslt_version))
    lines.fail("the version is not a number");
  if (lines.expect(key_columns() + std::string(kMiddle)) != kAlgorithm)
    lines.fail("the columns are not known");
  for (std::string_view line; lines.next(line);) {
    try {
      parse_line(line, table);
    } catch (const std::invalid_argument& error) {
      lines.fail(error.what());
    }
  }
  return table;
}

void save(const GemmTable& table, const std::filesystem::path& path) {
  const std::filesystem::path unfinished = path.string() + ".unfinished";
  std::ofstream file(unfinished, std::ios::binary);
  file << to_text(table);
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(unfinished, path, error);
  if (!file || error)
    throw UserError(fmt::format("cannot write the table of matrix products to {}", path.string()));
}

GemmTable load_gemm_table(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw UserError(fmt::format("cannot read the table of matrix products in {}", path.string()));
  return parse_gemm_table(text, path.string());
}

}  // namespace titan::cuda
