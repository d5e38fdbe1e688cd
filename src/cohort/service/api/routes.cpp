#include "cohort/service/api/api.h"
#include "cohort/service/api/handlers.h"

namespace cohort::service {

const std::vector<Route>& api_routes() {
  using enum UserRole;
  static const std::vector<Route> kRoutes = {
      {"GET", "/v1/service", viewer, get_service},
      {"GET", "/v1/openapi.json", viewer, get_openapi},
      {"GET", "/v1/cluster", viewer, get_cluster},
      {"GET", "/v1/jobs", viewer, list_jobs},
      {"POST", "/v1/jobs", user, submit_job},
      {"POST", "/v1/jobs/check", user, check_job},
      {"GET", "/v1/jobs/{job}", viewer, get_job},
      {"DELETE", "/v1/jobs/{job}", user, delete_job},
      {"GET", "/v1/jobs/{job}/tasks", viewer, list_tasks},
      {"GET", "/v1/jobs/{job}/failure", viewer, get_failure},
      {"GET", "/v1/jobs/{job}/timeline", viewer, get_timeline},
      {"POST", "/v1/jobs/{job}/stop", user, stop_job},
      {"POST", "/v1/jobs/{job}/resume", user, resume_job},
      {"POST", "/v1/jobs/{job}/scale", user, scale_job},
      {"POST", "/v1/jobs/{job}/pin", user, pin_job},
      {"GET", "/v1/jobs/{job}/logs", viewer, read_log},
      {"GET", "/v1/jobs/{job}/logs/stream", viewer, follow_logs},
      {"GET", "/v1/jobs/{job}/logs/index", viewer, index_of_log},
      {"GET", "/v1/jobs/{job}/logs/search", viewer, search_log},
      {"GET", "/v1/events", viewer, list_events},
      {"GET", "/v1/jobs/{job}/events", viewer, list_job_events},
      {"GET", "/v1/jobs/{job}/metrics", viewer, list_metrics},
      {"GET", "/v1/jobs/{job}/series", viewer, list_series},
      {"GET", "/v1/jobs/{job}/files", viewer, list_job_files},
      {"GET", "/v1/jobs/{job}/files/{path}", viewer, read_job_file},
      {"GET", "/v1/jobs/{job}/archive", viewer, read_archive},
      {"HEAD", "/v1/sources/{sha256}", user, find_source},
      {"PUT", "/v1/sources/{sha256}", user, put_source},
      {"POST", "/v1/links", viewer, create_link},
      {"POST", "/v1/session", viewer, begin_session, /*is_open=*/true},
      {"DELETE", "/v1/session", viewer, end_session},
      {"POST", "/v1/listener", admin, open_listener},
      {"GET", "/v1/tokens", viewer, list_tokens},
      {"POST", "/v1/tokens", admin, create_token},
      {"DELETE", "/v1/tokens/{token}", admin, remove_token},
      {"POST", "/v1/tokens/{token}/rotate", viewer, rotate_token},
  };
  return kRoutes;
}

}  // namespace cohort::service
