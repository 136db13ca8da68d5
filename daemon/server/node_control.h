// NodeControl: what an operator may ask of the whole node, from any thread.
#pragma once

#include <functional>
#include <optional>

#include "daemon/admin/reports.h"

namespace pulsewheel {

/// The same as the signals TERM and HUP, with an answer. Outlives whoever asks. Callbacks come on
/// the main thread, or never, when it has come to its end before.
class NodeControl {
 public:
  /// Begins to drain, a moment after the answer, which would not get out otherwise. Again: no
  /// effect.
  virtual void request_drain(std::function<void(DrainReport)> done) = 0;
  /// Nullopt while the node stops.
  virtual void request_reload(std::function<void(std::optional<ReloadReport>)> done) = 0;

 protected:
  ~NodeControl() = default;
};

}  // namespace pulsewheel
