#pragma once

#include "cohort/service/api/api_context.h"
#include "cohort/service/api/router.h"

// The operations of openapi.json (routes.cpp says which is which). Each throws ApiError, or what the
// job operations throw.
namespace cohort::service {

// service_handlers.cpp
HttpResponse get_service(ApiRequest& request);
HttpResponse get_openapi(ApiRequest& request);
HttpResponse list_tokens(ApiRequest& request);
HttpResponse create_token(ApiRequest& request);
HttpResponse remove_token(ApiRequest& request);
HttpResponse rotate_token(ApiRequest& request);

// session_handlers.cpp
HttpResponse create_link(ApiRequest& request);
HttpResponse begin_session(ApiRequest& request);
HttpResponse end_session(ApiRequest& request);
HttpResponse open_listener(ApiRequest& request);
// GET /login?code=CODE&next=PATH, which is no operation of the API: a browser goes there.
HttpResponse follow_link(const HttpRequest& request, ApiContext& context);

// job_handlers.cpp
HttpResponse list_jobs(ApiRequest& request);
HttpResponse submit_job(ApiRequest& request);
HttpResponse check_job(ApiRequest& request);
HttpResponse delete_job(ApiRequest& request);
HttpResponse list_tasks(ApiRequest& request);
HttpResponse stop_job(ApiRequest& request);
HttpResponse resume_job(ApiRequest& request);
HttpResponse scale_job(ApiRequest& request);
HttpResponse pin_job(ApiRequest& request);

// history_handlers.cpp
HttpResponse get_failure(ApiRequest& request);
HttpResponse get_timeline(ApiRequest& request);

// job_detail_handlers.cpp
HttpResponse get_job(ApiRequest& request);

// stream_handlers.cpp
HttpResponse read_log(ApiRequest& request);
HttpResponse follow_logs(ApiRequest& request);
HttpResponse list_events(ApiRequest& request);
HttpResponse list_job_events(ApiRequest& request);
HttpResponse list_metrics(ApiRequest& request);

// log_scan_handlers.cpp
HttpResponse index_of_log(ApiRequest& request);
HttpResponse search_log(ApiRequest& request);

// series_handlers.cpp
HttpResponse list_series(ApiRequest& request);

// cluster_handlers.cpp
HttpResponse get_cluster(ApiRequest& request);

// file_handlers.cpp
HttpResponse list_job_files(ApiRequest& request);
HttpResponse read_job_file(ApiRequest& request);
HttpResponse read_archive(ApiRequest& request);
HttpResponse find_source(ApiRequest& request);
HttpResponse put_source(ApiRequest& request);

// The job that the path names, if the caller may see it; another's job is as one that is not there.
// Throws NoSuchJob, AmbiguousJob.
JobRow seen_job(const ApiRequest& request, const std::string& named);
JobRow seen_job(const ApiRequest& request);
// The same for who wants to change it. Throws ApiError (403), too.
JobRow own_job(const ApiRequest& request);
// Where its results are: the folder that its description names, else its own in the run store.
std::filesystem::path output_folder(const RunFolders& folders, const JobRow& job);
// The attempt that the query names, the newest unless it does; 0: there is none yet. Throws
// ApiError (404).
int asked_attempt(const ApiRequest& request, const JobRow& job);

// Throws ApiError (404) where the attempt has tasks, and none of this name.
void require_task(const ApiRequest& request, const JobRow& job, int attempt,
                  const std::string& task);

}  // namespace cohort::service
