#include "lockstep/studio/studio.h"

#include <utility>

#include "lockstep/studio/gate.h"
#include "lockstep/studio/log_index.h"
#include "lockstep/studio/routes.h"
#include "lockstep/studio/server.h"

namespace lockstep::studio {

class Studio::State {
 public:
  explicit State(Setup setup)
      : setup_(std::move(setup)),
        server_(setup_.address, setup_.port),
        gate_(setup_.address, server_.port()),
        runs_(setup_.roots, LogIndexes(LogIndexes::default_folder()), events_),
        sweeps_(runs_.roots()),
        commands_(setup_.program, events_) {
    server_.start([this](const Request& head) {
      if (auto stopped = gate_.stop(head)) return always(*std::move(stopped));
      return find_answer(head, {setup_, events_, runs_, sweeps_, commands_});
    });
  }
  ~State() {
    commands_.stop_answers();
    server_.stop();
  }

  Gate& gate() { return gate_; }
  uint16_t port() const { return server_.port(); }

 private:
  Setup setup_;
  EventStream events_;
  Server server_;  // its streams read events_
  Gate gate_;
  Runs runs_;
  Sweeps sweeps_;
  Commands commands_;
};

Studio::Studio(Setup setup) : state_(std::make_unique<State>(std::move(setup))) {}
Studio::~Studio() = default;
uint16_t Studio::port() const { return state_->port(); }
std::string Studio::address_with_token() const { return state_->gate().address_with_token(); }
std::string Studio::address_with_code() { return state_->gate().address_with_code(); }

}  // namespace lockstep::studio
