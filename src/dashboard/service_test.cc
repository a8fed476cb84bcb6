// SPDX-License-Identifier: Apache-2.0
// The service on a real port, with a fake daemon that gives the test's answers.
#include "dashboard/service.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/post.hpp>
#include <map>
#include <mutex>
#include <thread>

#include "http/client.h"
#include "http/json_api.h"
#include "platform/unix_socket.h"
#include "tests/harness/temp_folder.h"
#include "tests/harness/wait_until.h"

namespace weir::dashboard {
namespace {

using nlohmann::json;

constexpr Duration kServiceLong = seconds(20);
const std::string kServiceToken(64, 'c');

/// A daemon with one device and one vGPU.
class FakeDaemon {
 public:
  explicit FakeDaemon(std::string path) : path_(std::move(path)) {}
  ~FakeDaemon() { Stop(); }
  void Start() {
    loop_.restart();
    auto made =
        http::Server::ListenUnix(loop_, path_, {}, [this](const http::Request& request, const http::Respond& r) {
          const std::scoped_lock lock(mutex_);
          ++asked_[request.method + " " + request.path];
          bodies_.push_back(request.body);
          r(Answer(request));
        });
    ASSERT_TRUE(made) << made.error().message;
    server_ = std::move(*made);
    thread_ = std::thread([this] { loop_.run(); });
  }
  void Stop() {
    loop_.stop();
    if (thread_.joinable()) thread_.join();
    server_.reset();
  }
  int asked(const std::string& what) {
    const std::scoped_lock lock(mutex_);
    return asked_[what];
  }
  std::string last_body() {
    const std::scoped_lock lock(mutex_);
    return bodies_.back();
  }
  void SetLayout(int layout) { layout_ = layout; }
  void AddEvent(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    events_.push_back(text);
  }
  /// Acts as a new daemon, whose events begin again.
  void BeginAgain() {
    const std::scoped_lock lock(mutex_);
    ++began_;
    events_.clear();
  }
  void AnswerRubbish(bool rubbish) { rubbish_ = rubbish; }

 private:
  http::Reply Answer(const http::Request& request) {
    if (rubbish_) return {200, "application/json", "{\"devices\": 3}"};
    if (request.path == "/v1/samples")
      return http::JsonReply({{"layout", layout_.load()},
                              {"device_fields", kDeviceFields},
                              {"devices", {{"gpu0", 0.5, 0.5, 1, 0, 0, 0}}},
                              {"vgpu_fields", kVgpuFields},
                              {"vgpus", {{1, 0.5, 1, 60, 16, 17, 0, 0, 100, 1, 1, 0}}}});
    if (request.path == "/v1/devices") return http::JsonReply({{"devices", {{{"name", "gpu0"}}}}});
    if (request.path == "/v1/vgpus")
      return http::JsonReply({{"vgpus", {{{"id", 1}, {"name", "a"}, {"device", "gpu0"}}}}});
    if (request.path == "/v1/events") {
      const std::size_t after = std::stoul(request.query.substr(request.query.find('=') + 1));
      nlohmann::ordered_json out{
          {"began_ns", began_}, {"next", events_.size()}, {"lost", 0}, {"events", json::array()}};
      for (std::size_t i = after; i < events_.size(); ++i)
        out["events"].push_back({{"number", i + 1},
                                 {"utc_ns", 1'000'000},
                                 {"device", "gpu0"},
                                 {"kind", "sold"},
                                 {"vgpu", "a"},
                                 {"text", events_[i]}});
      return http::JsonReply(out);
    }
    if (request.method == "PATCH") return http::JsonReply({{"patched", request.path}});
    return http::ErrorReply(Fail(Errc::kNotFound, "no such thing"));
  }

  const std::string path_;
  boost::asio::io_context loop_{1};
  std::unique_ptr<http::Server> server_;
  std::thread thread_;
  std::mutex mutex_;
  std::map<std::string, int> asked_;
  std::vector<std::string> bodies_, events_;
  int began_ = 1;
  std::atomic<int> layout_ = 1;
  std::atomic<bool> rubbish_ = false;
};

/// A page's stream of events, read as they come.
class PageStream {
 public:
  explicit PageStream(std::uint16_t port, const std::string& token = kServiceToken)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    const std::string head = "GET /api/stream HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) +
                             "\r\nAuthorization: Bearer " + token + "\r\n\r\n";
    EXPECT_EQ(::send(socket_.get(), head.data(), head.size(), 0), static_cast<ssize_t>(head.size()));
    head_ = Take("\r\n\r\n");
  }
  [[nodiscard]] const std::string& head() const { return head_; }
  struct Event {
    std::string name;
    json data;
  };
  /// The next event. Empty name: the stream has ended, or no event came.
  Event Next() {
    const std::string text = Take("\n\n");
    const std::size_t end = text.find('\n');
    if (!text.starts_with("event: ") || end == std::string::npos) return {};
    return {text.substr(7, end - 7), json::parse(text.substr(end + std::string("\ndata: ").size()))};
  }
  /// Reads events until one has this name, and keeps the names of the events before it. Null: none of the next
  /// kPassedMost events has the name.
  json Find(const std::string& name) {
    constexpr int kPassedMost = 100;  // bounded, because ticks never end
    passed_.clear();
    for (int i = 0; i < kPassedMost; ++i) {
      Event event = Next();
      if (event.name.empty()) return nullptr;
      if (event.name == name) return std::move(event.data);
      passed_.push_back(event.name);
    }
    return nullptr;
  }
  [[nodiscard]] const std::vector<std::string>& passed() const { return passed_; }

 private:
  std::string Take(std::string_view end) {
    std::size_t at = 0;
    while ((at = read_.find(end)) == std::string::npos) {
      char part[16'384];
      if (!platform::WaitReadable(socket_.get(), 20'000)) return {};
      const ssize_t got = ::recv(socket_.get(), part, sizeof part, 0);
      if (got <= 0) return {};
      read_.append(part, static_cast<std::size_t>(got));
    }
    std::string taken = read_.substr(0, at);
    read_.erase(0, at + end.size());
    return taken;
  }

  platform::Fd socket_;
  std::string read_, head_;
  std::vector<std::string> passed_;
};

class DashboardServiceTest : public ::testing::Test {
 protected:
  void Serve(bool read_only = false) {
    service_ = std::make_unique<Service>(loop_, folder_ / "control.sock", "node<1>");
    auto made = http::Server::ListenTcp(
        loop_, "127.0.0.1", 0, service_->Limits(),
        [this](const http::Request& request, const http::Respond& respond) { service_->Handle(request, respond); });
    ASSERT_TRUE(made) << made.error().message;
    server_ = std::move(*made);
    port_ = server_->port();
    service_->Start({.listens = {"127.0.0.1", port_}, .token = kServiceToken, .read_only = read_only});
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~DashboardServiceTest() override {
    loop_.stop();
    if (thread_.joinable()) thread_.join();
  }
  http::Answer Ask(const std::string& method, const std::string& target, const std::string& body = "",
                   const std::string& token = kServiceToken) {
    const http::Call call{.method = method,
                          .target = target,
                          .body = body,
                          .bearer = token,
                          .headers = {{"Host", "127.0.0.1:" + std::to_string(port_)}}};
    auto answer = http::AskTcp("127.0.0.1", port_, call, kServiceLong);
    EXPECT_TRUE(answer) << answer.error().message;
    return answer ? *answer : http::Answer{};
  }

  testing::TempFolder folder_;
  FakeDaemon daemon_{folder_ / "control.sock"};
  boost::asio::io_context loop_{1};
  std::unique_ptr<Service> service_;
  std::unique_ptr<http::Server> server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

TEST(DashboardLook, TheCadenceIsThatOfTheClock) {
  using std::chrono::milliseconds;
  for (const std::int64_t now : {0L, 1L, 124L, 125L, 126L, 374L, 375L, 999L, 1'700'000'000'437L}) {
    const std::int64_t next = now + UntilNextLook(now, kWatchedEvery).count();
    EXPECT_EQ(next % 250, 125) << now;
    EXPECT_GT(next, now);
    EXPECT_LE(next, now + 250);
  }
  EXPECT_EQ(UntilNextLook(1000, kUnwatchedEvery), milliseconds(500));
  EXPECT_EQ(UntilNextLook(1500, kUnwatchedEvery), milliseconds(1000));
  EXPECT_EQ(UntilNextLook(-1, kUnwatchedEvery), milliseconds(501));
}

TEST_F(DashboardServiceTest, AStreamBeginsWithHelloThenListsThenTicks) {
  daemon_.AddEvent("first");
  daemon_.Start();
  Serve();
  PageStream page(port_);
  EXPECT_NE(page.head().find("\r\nContent-Type: text/event-stream"), std::string::npos) << page.head();
  const auto hello = page.Next();
  EXPECT_EQ(hello.name, "hello");
  EXPECT_EQ(hello.data["format"], 1);
  EXPECT_EQ(hello.data["node"], "node<1>");
  EXPECT_EQ(hello.data["read_only"], false);
  EXPECT_EQ(hello.data["tick_ms"], 250);
  const json lists = page.Find("lists");
  EXPECT_EQ(std::ranges::count(page.passed(), "tick"), 0) << "a tick's rows mean nothing without the lists";
  EXPECT_EQ(lists["devices"][0]["name"], "gpu0");
  EXPECT_EQ(lists["vgpus"][0]["name"], "a");
  const json tick = page.Find("tick");
  EXPECT_EQ(tick["layout"], 1);
  EXPECT_GT(tick["at_ms"].get<std::int64_t>(), 1'700'000'000'000);
  EXPECT_EQ(tick["vgpus"][0][3], 60);
  daemon_.AddEvent("second");
  for (;;) {
    const json events = page.Find("events");
    ASSERT_TRUE(events.is_object());
    if (events["events"].back()["text"] != "second") continue;
    EXPECT_EQ(events["events"].back()["time_ms"], 1);
    break;
  }
  daemon_.SetLayout(2);
  const json again = page.Find("lists");
  EXPECT_TRUE(again.is_object());
  EXPECT_EQ(page.Find("tick")["layout"], 2);
}

TEST_F(DashboardServiceTest, TheDaemonIsAwayOnceAndThenBack) {
  daemon_.Start();
  Serve();
  PageStream page(port_);
  ASSERT_TRUE(page.Find("tick").is_object());
  daemon_.Stop();
  EXPECT_NE(page.Find("away")["message"].get<std::string>().find("weir serve"), std::string::npos);
  // A page that is opened meanwhile gets the event, too.
  PageStream late(port_);
  EXPECT_EQ(late.Next().name, "hello");
  EXPECT_EQ(late.Next().name, "away");
  daemon_.BeginAgain();
  daemon_.AddEvent("of the new daemon");
  daemon_.Start();
  EXPECT_TRUE(page.Find("back").is_object());
  EXPECT_EQ(std::ranges::count(page.passed(), "away"), 0) << "once for each outage";
  EXPECT_EQ(page.Next().name, "lists");
  EXPECT_EQ(page.Find("events")["events"].back()["text"], "of the new daemon");
  EXPECT_EQ(late.Next().name, "back");
  EXPECT_EQ(late.Next().name, "lists");
}

TEST_F(DashboardServiceTest, EventsOfANewDaemonAreReadFromTheirBeginning) {
  daemon_.AddEvent("old 1");
  daemon_.AddEvent("old 2");
  daemon_.Start();
  Serve();
  PageStream page(port_);
  ASSERT_TRUE(page.Find("tick").is_object());
  daemon_.BeginAgain();
  daemon_.AddEvent("new 1");
  for (;;) {
    const json events = page.Find("events");
    ASSERT_TRUE(events.is_object());
    if (events["events"][0]["text"] == "new 1") break;
  }
}

TEST_F(DashboardServiceTest, AnAnswerThatIsMalformedIsAnOutage) {
  daemon_.Start();
  Serve();
  PageStream page(port_);
  ASSERT_TRUE(page.Find("tick").is_object());
  daemon_.AnswerRubbish(true);
  EXPECT_NE(page.Find("away")["message"].get<std::string>().find("malformed"), std::string::npos);
  daemon_.AnswerRubbish(false);
  EXPECT_TRUE(page.Find("back").is_object());
}

TEST_F(DashboardServiceTest, TheNumberOfLooksDoesNotDependOnTheNumberOfPages) {
  daemon_.Start();
  Serve();
  std::vector<std::unique_ptr<PageStream>> pages;
  for (std::size_t i = 0; i < kStreamsMax; ++i) {
    pages.push_back(std::make_unique<PageStream>(port_));
    ASSERT_TRUE(pages.back()->Find("tick").is_object());
  }
  EXPECT_EQ(Ask("GET", "/api/stream").status, 503U) << "no more streams";
  const int looks = daemon_.asked("GET /v1/samples");
  for (auto& page : pages)
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(page->Find("tick").is_object());
  // Each look is one tick of each page, so that two ticks of all pages come from few looks.
  EXPECT_LT(daemon_.asked("GET /v1/samples") - looks, static_cast<int>(kStreamsMax));
  pages.clear();
  EXPECT_TRUE(testing::WaitUntil([this] {
    PageStream page(port_);
    return page.head().starts_with("HTTP/1.1 200");
  })) << "the place of a page that is closed is free";
}

TEST_F(DashboardServiceTest, RequestsArePassedOnAndTheirErrorsToo) {
  daemon_.Start();
  Serve();
  EXPECT_EQ(json::parse(Ask("PATCH", "/api/v1/vgpus/a", R"({"cap": 0.5})").body)["patched"], "/v1/vgpus/a");
  EXPECT_GE(daemon_.asked("PATCH /v1/vgpus/a"), 1);
  const http::Answer unknown = Ask("GET", "/api/v1/vgpus/b");
  EXPECT_EQ(unknown.status, 404U);
  EXPECT_EQ(json::parse(unknown.body)["error"]["message"], "no such thing");
  daemon_.Stop();
  const http::Answer away = Ask("GET", "/api/v1/status");
  EXPECT_EQ(away.status, 503U);
  EXPECT_EQ(json::parse(away.body)["error"]["code"], "unavailable");
}

TEST_F(DashboardServiceTest, WhatIsRefusedDoesNotReachTheDaemon) {
  daemon_.Start();
  Serve(/*read_only=*/true);
  EXPECT_EQ(Ask("PATCH", "/api/v1/vgpus/a", R"({"cap": 0.5})").status, 403U);
  EXPECT_EQ(Ask("PATCH", "/api/v1/vgpus/a", R"({"cap": 0.5})", "wrong").status, 401U);
  EXPECT_EQ(Ask("POST", "/api/v1/shutdown").status, 404U);
  EXPECT_EQ(Ask("DELETE", "/api/v1/vgpus/a").status, 403U);
  for (const char* what : {"PATCH /v1/vgpus/a", "POST /v1/shutdown", "DELETE /v1/vgpus/a"})
    EXPECT_EQ(daemon_.asked(what), 0) << what;
  PageStream page(port_);
  EXPECT_EQ(page.Next().data["read_only"], true);
}

TEST_F(DashboardServiceTest, ALargeBodyIsRefused) {
  daemon_.Start();
  Serve();
  EXPECT_EQ(Ask("PATCH", "/api/v1/vgpus/a", std::string(kBodyBytesMax + 1, ' ')).status, 413U);
  EXPECT_EQ(Ask("PATCH", "/api/v1/vgpus/a", std::string(kBodyBytesMax + 1, ' '), "wrong").status, 401U);
  EXPECT_EQ(daemon_.asked("PATCH /v1/vgpus/a"), 0);
  EXPECT_EQ(Ask("PATCH", "/api/v1/vgpus/a", std::string(kBodyBytesMax, ' ')).status, 200U);
}

TEST_F(DashboardServiceTest, TheHistoryHasRowsOnceASpanIsOver) {
  daemon_.AddEvent("sold");
  daemon_.Start();
  Serve();
  const auto rows_of = [this](const std::string& query) {
    const http::Answer answer = Ask("GET", "/api/history" + query);
    EXPECT_TRUE(answer.status == 200 || answer.status == 404) << answer.body;
    return answer.status == 200 ? json::parse(answer.body)["series"].at(0)["rows"].size() : 0;
  };
  EXPECT_TRUE(testing::WaitUntil([&] { return rows_of("?vgpu=a") > 0; })) << "without a page, too";
  EXPECT_GT(rows_of(""), 0U);
  EXPECT_EQ(json::parse(Ask("GET", "/api/history?device=gpu0").body)["series"][1]["fields"], json::array({"a"}));
  EXPECT_EQ(json::parse(Ask("GET", "/api/history").body)["events"]["events"][0]["text"], "sold");
  EXPECT_EQ(Ask("GET", "/api/history?vgpu=b").status, 404U);
  EXPECT_EQ(Ask("GET", "/api/history?device=b").status, 404U);
  EXPECT_EQ(Ask("GET", "/api/history?node=b").status, 400U);
}

TEST_F(DashboardServiceTest, ThePageIsServedWithoutATokenAndWithItsHeaders) {
  Serve();
  EXPECT_TRUE(Ask("GET", "/", "", "").body.starts_with("<!"));
  EXPECT_EQ(Ask("GET", "/app.js", "", "").status, 200U);
  const http::Limits limits = service_->Limits();
  ASSERT_EQ(limits.headers.size(), 4U);
  EXPECT_EQ(limits.headers[0].second,
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
}

}  // namespace
}  // namespace weir::dashboard
