#include "coordinator/cli/plot_style.h"

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace gimbal::cli {
namespace {

// Okabe and Ito's palette, for white and for dark paper.
constexpr char kStyle[] = R"(<style>
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
.paper{fill:#fff}.title{fill:#16191d;font-size:19px;font-weight:600}
.note{fill:#5a6270;font-size:13px}.grid{stroke:#e3e6ea}.axis{stroke:#9aa3ad}
.line{fill:none;stroke-width:2.2;stroke-linejoin:round}
.lead{fill:none;stroke-width:1;opacity:.55}
.title-fill{fill:#16191d}
.label{font-size:13.5px;font-weight:500}
.s0{stroke:#0072b2}.s1{stroke:#d55e00}.s2{stroke:#009e73}
.s3{stroke:#b0558f}.s4{stroke:#c28500}.s5{stroke:#3c9bd0}
.f0{fill:#0072b2}.f1{fill:#d55e00}.f2{fill:#00805d}
.f3{fill:#a34a83}.f4{fill:#9a6a00}.f5{fill:#2a7fb0}
@media (prefers-color-scheme:dark){
.title-fill{fill:#f1f3f5}.paper{fill:#15181c}.title{fill:#f1f3f5}.note{fill:#a4adb8}
.grid{stroke:#2a3037}.axis{stroke:#6b7580}
.s0{stroke:#4aa8e0}.s1{stroke:#f08a45}.s2{stroke:#33c79b}
.s3{stroke:#dd9cc4}.s4{stroke:#e8b04a}.s5{stroke:#8ccdf2}
.f0{fill:#6bb8e8}.f1{fill:#f39a5e}.f2{fill:#4fd1aa}
.f3{fill:#e3aed0}.f4{fill:#ecbd66}.f5{fill:#a3d8f5}
}
</style>
)";

}  // namespace

std::string EscapeXml(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string PlotHeader(const PlotText& text, double width, double height) {
  return absl::StrFormat(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f "
             "%.0f\" width=\"%.0f\" height=\"%.0f\" role=\"img\" "
             "aria-label=\"%s\">\n",
             width, height, width, height, EscapeXml(text.title)) +
         kStyle +
         absl::StrFormat(
             "<rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>\n"
             "<text class=\"title\" x=\"20\" y=\"36\">%s</text>\n"
             "<text class=\"note\" x=\"20\" y=\"59\">%s</text>\n",
             EscapeXml(text.title), EscapeXml(text.subtitle));
}

}  // namespace gimbal::cli
