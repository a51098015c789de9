// Saving while training goes on: one save at a time, on a thread of its own.
#pragma once

#include "engine/checkpoint/save.h"

#include <functional>
#include <future>

namespace titan {

class BackgroundSave {
 public:
  BackgroundSave() = default;
  ~BackgroundSave();  ///< waits for the save in flight; a failure nobody has taken is logged
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Runs `save`, of the given step, on a new thread. What the last one gave must have been taken.
  void start(int64_t step, std::function<SaveResult()> save);
  /// Whether there is a save whose result has not been taken.
  bool pending() const { return result_.valid(); }
  /// Whether that save has ended, well or badly.
  bool ended() const;
  int64_t step() const { return step_; }
  /// Waits for the save to end, gives what it returned or throws what it threw.
  SaveResult take() { return result_.get(); }

 private:
  std::future<SaveResult> result_;
  int64_t step_ = 0;
};

}  // namespace titan
