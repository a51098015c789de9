// How the ranks of a run agree while they save or load: the little that checkpoints need from communication.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace titan {

/// All ranks call the same functions in the same order. A function throws when its timeout passes; the
/// timeout is the checkpoint's own, because a slow disk is not a dead peer.
class Coordinator {
 public:
  virtual ~Coordinator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Rank 0 gets every rank's value in rank order, the others an empty vector.
  virtual std::vector<std::string> gather(std::string value, std::chrono::seconds timeout) = 0;
  /// Every rank gets rank 0's value; returns after rank 0 has called it.
  virtual std::string broadcast(std::string value, std::chrono::seconds timeout) = 0;
};

/// One rank, alone.
class SoloCoordinator final : public Coordinator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<std::string> gather(std::string value, std::chrono::seconds) override {
    return {std::move(value)};
  }
  std::string broadcast(std::string value, std::chrono::seconds) override { return value; }
};

}  // namespace titan
