// SPDX-License-Identifier: Apache-2.0
#include "cluster/etcd/etcd_store.h"

#include <etcd.grpc.pb.h>  // made by protoc
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>

namespace weir::cluster {
namespace {

namespace pb = etcdserverpb;

constexpr Duration kMemberMax = milliseconds(400);  // an answer takes 1 to 2 ms
constexpr int kPage = 500;
/// Says which write was the last, and each write wants the one before it to be: a transaction that was given up,
/// because no answer came, may be delivered seconds later, when a link is mended, and would undo what was written
/// since.
constexpr std::string_view kWritesKey = "weir/writes";

struct Member {
  std::string name;
  std::unique_ptr<pb::KV::Stub> kv;
  std::unique_ptr<pb::Lease::Stub> lease;
};

class EtcdStore final : public StateStore {
 public:
  explicit EtcdStore(const std::vector<std::string>& members) {
    grpc::ChannelArguments arguments;
    // One that was away is tried again soon: by default after 1 s, then 1.6 s, then 2.6 s.
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 300);
    arguments.SetMaxReceiveMessageSize(64 << 20);
    for (const std::string& name : members) {
      const auto channel = grpc::CreateCustomChannel(name, grpc::InsecureChannelCredentials(), arguments);
      members_.push_back({name, pb::KV::NewStub(channel), pb::Lease::NewStub(channel)});
    }
  }

  Result<std::optional<Leader>> WhoLeads() override {
    pb::RangeRequest request;
    request.set_key(std::string(kLeaderKey));
    pb::RangeResponse response;
    WEIR_TRY_STATUS(Ask("who leads", [&](Member& member, grpc::ClientContext& context) {
      return member.kv->Range(&context, request, &response);
    }));
    if (response.kvs().empty()) return std::optional<Leader>();
    return std::optional(Leader{response.kvs(0).value(), static_cast<std::uint64_t>(response.kvs(0).mod_revision())});
  }

  Result<Lead> TakeLead(const std::string& holder, const std::optional<Leader>& instead_of) override {
    pb::LeaseGrantRequest grant;
    grant.set_ttl(kLeadTtl / seconds(1));
    pb::LeaseGrantResponse granted;
    WEIR_TRY_STATUS(Ask("a lease", [&](Member& member, grpc::ClientContext& context) {
      return member.lease->LeaseGrant(&context, grant, &granted);
    }));
    pb::TxnRequest request;
    Expect(request, kLeaderKey, instead_of ? instead_of->fence : 0);
    pb::PutRequest& put = *request.add_success()->mutable_request_put();
    put.set_key(std::string(kLeaderKey));
    put.set_value(holder);
    put.set_lease(granted.id());
    pb::PutRequest& first = *request.add_success()->mutable_request_put();
    first.set_key(std::string(kWritesKey));
    first.set_value("0");
    pb::TxnResponse response;
    WEIR_TRY_STATUS(Ask("the lead", [&](Member& member, grpc::ClientContext& context) {
      return member.kv->Txn(&context, request, &response);
    }));
    const Lead lead{.fence = static_cast<std::uint64_t>(response.header().revision()), .lease = granted.id()};
    if (response.succeeded()) {
      const std::lock_guard guard(mutex_);
      written_ = {.fence = lead.fence, .revision = lead.fence};
      return lead;
    }
    GiveUpLead(lead);
    return Fail(Errc::kBusy, "another manager took the lead");
  }

  Status KeepLead(const Lead& lead) override {
    pb::LeaseKeepAliveRequest request;
    request.set_id(lead.lease);
    pb::LeaseKeepAliveResponse response;
    WEIR_TRY_STATUS(Ask("to keep the lead", [&](Member& member, grpc::ClientContext& context) {
      const auto stream = member.lease->LeaseKeepAlive(&context);
      const bool answered = stream->Write(request) && stream->WritesDone() && stream->Read(&response);
      const grpc::Status status = stream->Finish();
      if (answered || !status.ok()) return answered ? grpc::Status::OK : status;
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "no answer");
    }));
    return response.ttl() > 0 ? Ok() : Status(Fail(Errc::kNotFound, "the lead is over: its lease has ended"));
  }

  void GiveUpLead(const Lead& lead) override {
    pb::LeaseRevokeRequest request;
    request.set_id(lead.lease);
    pb::LeaseRevokeResponse response;
    (void)Ask("to give up the lead", [&](Member& member, grpc::ClientContext& context) {
      return member.lease->LeaseRevoke(&context, request, &response);
    }).has_value();
  }

  Result<std::vector<Entry>> Read() override {
    std::vector<Entry> entries;
    pb::RangeRequest request;
    request.set_key(std::string(kRecordPrefix));
    std::string end(kRecordPrefix);
    ++end.back();
    request.set_range_end(end);
    request.set_limit(kPage);
    for (;;) {
      pb::RangeResponse response;
      WEIR_TRY_STATUS(Ask("the records", [&](Member& member, grpc::ClientContext& context) {
        return member.kv->Range(&context, request, &response);
      }));
      for (const pb::KeyValue& kv : response.kvs()) entries.push_back({kv.key(), kv.value()});
      if (!response.more() || response.kvs().empty()) return entries;
      request.set_revision(request.revision() != 0 ? request.revision() : response.header().revision());
      request.set_key(entries.back().key + '\0');
    }
  }

  Status Write(const Lead& lead, std::span<const Change> changes) override {
    const std::lock_guard guard(mutex_);
    if (written_.fence != lead.fence) return Fail(Errc::kBusy, "this manager has taken the lead again since");
    const std::string mark = std::to_string(lead.fence) + "." + std::to_string(written_.count + 1);
    pb::TxnRequest request;
    Expect(request, kLeaderKey, lead.fence);
    Expect(request, kWritesKey, written_.revision);
    pb::PutRequest& marked = *request.add_success()->mutable_request_put();
    marked.set_key(std::string(kWritesKey));
    marked.set_value(mark);
    // etcd takes each key once in a transaction.
    std::map<std::string_view, const Change*> last;
    for (const Change& change : changes) last[change.key] = &change;
    for (const auto& [key, change] : last) {
      pb::RequestOp& op = *request.add_success();
      if (change->value) {
        op.mutable_request_put()->set_key(change->key);
        op.mutable_request_put()->set_value(*change->value);
      } else {
        op.mutable_request_delete_range()->set_key(change->key);
      }
    }
    pb::TxnResponse response;
    WEIR_TRY_STATUS(Ask("to write", [&](Member& member, grpc::ClientContext& context) {
      return member.kv->Txn(&context, request, &response);
    }));
    std::int64_t revision = response.header().revision();
    if (!response.succeeded()) {
      // Another one has the lead, or this is the second time and the first one was not in vain.
      WEIR_TRY(revision, RevisionOfWrite(mark));
      if (revision == 0) return Fail(Errc::kBusy, "another manager has the lead");
    }
    written_.revision = static_cast<std::uint64_t>(revision);
    ++written_.count;
    return Ok();
  }

 private:
  /// The writes of this manager's lead, as far as they are known to be made.
  struct Written {
    std::uint64_t fence = 0, revision = 0, count = 0;
  };

  /// `revision`: at which the key was written last; 0: there is no such key.
  static void Expect(pb::TxnRequest& request, std::string_view key, std::uint64_t revision) {
    pb::Compare& compare = *request.add_compare();
    compare.set_result(pb::Compare::EQUAL);
    compare.set_target(pb::Compare::MOD);
    compare.set_key(std::string(key));
    compare.set_mod_revision(static_cast<std::int64_t>(revision));
  }

  /// Of the last write, if it was this one; else 0.
  Result<std::int64_t> RevisionOfWrite(const std::string& mark) {
    pb::RangeRequest request;
    request.set_key(std::string(kWritesKey));
    pb::RangeResponse response;
    WEIR_TRY_STATUS(Ask("its last write", [&](Member& member, grpc::ClientContext& context) {
      return member.kv->Range(&context, request, &response);
    }));
    if (response.kvs().empty() || response.kvs(0).value() != mark) return std::int64_t{0};
    return response.kvs(0).mod_revision();
  }

  /// Each member once, beginning with the one that answered last.
  Status Ask(const std::string& what, const std::function<grpc::Status(Member&, grpc::ClientContext&)>& call) {
    std::string why;
    const std::size_t first = preferred_.load();
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const std::size_t index = (first + i) % members_.size();
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + kMemberMax);
      const grpc::Status status = call(members_[index], context);
      if (status.ok()) {
        preferred_.store(index);
        return Ok();
      }
      why += (why.empty() ? "" : "; ") + members_[index].name + ": " + status.error_message();
      // The lease of a lead that is over.
      if (status.error_code() == grpc::StatusCode::NOT_FOUND) return Fail(Errc::kNotFound, why);
    }
    preferred_.store((first + 1) % members_.size());
    return Fail(Errc::kUnavailable, "asked etcd for " + what + ": " + why);
  }

  std::vector<Member> members_;
  std::atomic<std::size_t> preferred_{0};
  std::mutex mutex_;
  Written written_;
};

}  // namespace

std::unique_ptr<StateStore> MakeEtcdStore(const std::vector<std::string>& members) {
  return std::make_unique<EtcdStore>(members);
}

}  // namespace weir::cluster
