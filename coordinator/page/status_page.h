// The status page on the coordinator's HTTP port:
//
//   /              the page: one document, nothing is loaded from elsewhere
//   /status.json   as `gimbal status --json`; whoever asks with `?watch=NAME`
//                  every second is waited for at the run's end, as
//                  GetStatus's `watching` is
//   /history.json  {"losses": [[update, loss], ...], "valid_losses": ...}
//   /times.json    the last minute of the stages' `times`, for an open page
//                  to begin with
//
// README.md beside this file describes the documents.
#pragma once

#include "common/obs/http_server.h"
#include "coordinator/page/loss_curve.h"
#include "coordinator/page/times_history.h"
#include "coordinator/service/status_board.h"

namespace gimbal::coordinator {

// Until there is a run to show all of them are 503: an open page of an earlier
// process goes on asking.
void ServeStartingPage(obs::HttpServer& server);

// All must outlive the server.
void ServeStatusPage(obs::HttpServer& server, StatusBoard& board,
                     const LossCurve& curve, const TimesHistory& times);

// The document, from page.html, style.css and page.js.
extern const char kStatusPage[];

}  // namespace gimbal::coordinator
