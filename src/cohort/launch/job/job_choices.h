#pragma once

#include "cohort/launch/job/choice.h"
#include "cohort/launch/job/job.h"

// The words for the choices of a job: one table an enum, for the command line and for records.
namespace cohort::launch {

inline constexpr Choice<ChiefName> kChiefNames[] = {
    {"none", ChiefName::none}, {"chief", ChiefName::chief}, {"master", ChiefName::master}};
inline constexpr Choice<Layout> kLayouts[] = {{"separate", Layout::separate},
                                              {"colocated", Layout::colocated}};
inline constexpr Choice<SuccessPolicy> kSuccessPolicies[] = {
    {"chief", SuccessPolicy::chief},
    {"worker0", SuccessPolicy::worker0},
    {"all-workers", SuccessPolicy::all_workers}};
inline constexpr Choice<ProxyMode> kProxyModes[] = {
    {"bypass", ProxyMode::bypass}, {"strip", ProxyMode::strip}, {"keep", ProxyMode::keep}};

}  // namespace cohort::launch
