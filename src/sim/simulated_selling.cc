// SPDX-License-Identifier: Apache-2.0
// How a node's device is sold in a run: customers that come and go, and vGPUs that are sold or refused.
#include <fmt/format.h>

#include <algorithm>

#include "sim/simulation.h"

namespace weir::sim {

/// Changes how a node's device is sold, at its start or during the run. The engine refuses when the present ceilings
/// are too much for the new mode; then nothing changes.
void Simulation::SellBy(std::uint32_t index, core::OversellMode mode, const core::PolicyParams& params) {
  Node& node = nodes_[index];
  if (!node.up) return;  // a dead daemon does not get the order
  const auto given = params.find("ratio");
  const double ratio = given == params.end() ? 2.0 : given->second;
  if (!node.engine->Step(now_, engine::SetOversell{"", mode, params}, node.actions)) {
    refused_.push_back({.at_ns = (now_ - start_).count(), .device = index, .ceiling = ratio, .mode = mode});
    return;
  }
  Carry(index);
  if (node.look_at > now_) LookAt(index, now_);
  node.oversell = mode;
  node.oversell_params = params;
  selling_.push_back({(now_ - start_).count(), index, mode, ratio});
  for (const std::uint32_t gate : node.gates) NoteTerms(gates_[gate]);
}

void Simulation::NoteTerms(Gate& gate) {
  Node& node = nodes_[gate.node];
  if (!gate.sold || !node.up || !node.engine->Vgpu(now_, gate.id)) return;
  gate.sale = node.engine->SaleOf(gate.id);
  const double ceiling = gate.settings.cap.Fraction();
  // A promised latency is a rate, too: the longest interval between two frames.
  const double by_latency = gate.settings.latency > Duration{0} ? 1 / SecondsOf(gate.settings.latency) : 0;
  const double fps = std::max(gate.settings.promised_rate(), by_latency);
  if (!gate.record.terms.empty()) {
    const SaleTerms& last = gate.record.terms.back();
    if (last.sale == gate.sale && last.ceiling == ceiling && last.fps == fps) return;
  }
  gate.record.terms.push_back({(now_ - start_).count(), gate.sale, ceiling, fps});
}

/// Sells vGPUs to customers in their order. A customer who is refused asks again every second, and those behind wait.
void Simulation::Sell(std::uint32_t index) {
  Node& node = nodes_[index];
  while (node.up && !node.customers.empty()) {
    const std::uint32_t next = node.customers.front();
    Gate& gate = gates_[next];
    if (start_ + gate.tenant->start > now_) break;
    const engine::CreateVgpu bought{
        .name = gate.tenant->name, .device = "", .settings = gate.settings, .id = gate.id, .sale = gate.sale};
    if (!node.engine->Step(now_, bought, node.actions)) {
      refused_.push_back({.at_ns = (now_ - start_).count(),
                          .device = index,
                          .tenant = gate.tenant->name,
                          .ceiling = gate.settings.cap.Fraction()});
      break;
    }
    Carry(index);
    gate.sold = true;
    gate.record.sold_ns = (now_ - start_).count();
    NoteTerms(gate);
    node.customers.erase(node.customers.begin());
    Arrive(next);
  }
  if (!node.customers.empty()) Push(index, now_ + seconds(1), EventKind::kSell, index);
}

/// A customer's program has ended: its vGPU is removed. A customer without a vGPU stops asking for one.
void Simulation::LeaveShop(std::uint32_t index) {
  Gate& gate = gates_[index];
  Node& node = nodes_[gate.node];
  std::erase(node.customers, index);
  if (!gate.sold) return;
  if (Elastic()) TakeOrder(index, {});
  if (node.up) {
    gate.record.booked_ns = node.engine->GpuTotal(gate.id)->count();
    Step(gate.node, engine::RemoveVgpu{gate.id});
  }
  gate.done.clear();
  gate.sold = false;
  gate.record.left_ns = (now_ - start_).count();
}

/// Changes a tenant's settings. If the engine refuses the new cap, the other settings are changed all the same.
void Simulation::SetTenant(Gate& gate, engine::VgpuSettings settings) {
  Node& node = nodes_[gate.node];
  if (gate.sold && node.oversell != core::OversellMode::kOff) {
    const bool refused = !node.up || !node.engine->Step(now_, engine::SetVgpu{gate.id, settings}, node.actions);
    if (!refused) {
      Carry(gate.node);
      if (node.look_at > now_) LookAt(gate.node, now_);
    } else {
      if (node.up)
        refused_.push_back({.at_ns = (now_ - start_).count(),
                            .device = gate.node,
                            .tenant = gate.tenant->name,
                            .ceiling = settings.cap.Fraction()});
      settings.cap = gate.settings.cap;
      if (node.up) Step(gate.node, engine::SetVgpu{gate.id, settings});
    }
  } else if (gate.sold && node.up) {
    Step(gate.node, engine::SetVgpu{gate.id, settings});
  }
  gate.settings = settings;
  NoteTerms(gate);
}

/// Checks that where a device is sold, each cap is at most its ceiling, and all caps together at most the device.
void Simulation::CheckCapsNow(std::uint32_t index) {
  Node& node = nodes_[index];
  if (!node.up || node.oversell == core::OversellMode::kOff) return;
  constexpr double kRounding = 2e-6;  // of each; caps are whole millionths
  double together = 0;
  for (const std::uint32_t g : node.gates) {
    if (!gates_[g].sold) continue;
    const double cap = node.engine->Vgpu(now_, gates_[g].id)->cap_now.Fraction();
    together += cap - kRounding;
    if (cap > gates_[g].settings.cap.Fraction() + kRounding)
      violations_.push_back(fmt::format("caps now: {:.3f} s: '{}' may use {:.4f} of the device; it was sold {:.4f}",
                                        SecondsOf(now_ - start_), gates_[g].tenant->name, cap,
                                        gates_[g].settings.cap.Fraction()));
  }
  if (together > 1)
    violations_.push_back(
        fmt::format("caps now: {:.3f} s: together {:.4f} of device {}", SecondsOf(now_ - start_), together, index));
}

}  // namespace weir::sim
